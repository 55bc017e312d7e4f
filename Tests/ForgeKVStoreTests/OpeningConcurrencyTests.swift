import Dispatch
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

@testable import ForgeKVStore

@Suite("Opening and closing many stores") struct OpeningConcurrencyTests {
    private let key = KVKey<Int>("a")

    @Test("a slow opening delays no other store", .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func slowOpening() throws {
        let fileSystem = FailingFileSystem()
        let isSlow = DispatchSemaphore(value: 0)
        let mayGoOn = DispatchSemaphore(value: 0)
        let isDone = DispatchSemaphore(value: 0)
        let isHeldUp = Flag()
        fileSystem.fail { operation, path in
            guard operation == .lock, !isHeldUp.isSet else { return nil }
            isHeldUp.set()
            isSlow.signal()
            _ = mayGoOn.wait(timeout: .now() + 20)
            return nil
        }
        Thread.detachNewThread {
            do { _ = try FileKVStore(at: "/slow", fileSystem: fileSystem) } catch { Issue.record(error) }
            isDone.signal()
        }
        isSlow.wait()
        let hasOpened = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            do { _ = try FileKVStore(at: "/other", fileSystem: fileSystem) } catch { Issue.record(error) }
            hasOpened.signal()
        }
        #expect(hasOpened.wait(timeout: .now() + 10) == .success)
        mayGoOn.signal()
        isDone.wait()
    }

    @Test("threads that open one store at once get one engine", .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func together() throws {
        let fileSystem = InMemoryFileSystem()
        let failures = Atomic(0)
        DispatchQueue.concurrentPerform(iterations: 50) { number in
            do {
                let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
                try store.set(KVKey<Int>("key.\(number)"), value: number)
            } catch {
                failures.wrappingAdd(1, ordering: .relaxed)
            }
        }
        #expect(failures.load(ordering: .relaxed) == 0)
        #expect(try FileKVStore(at: "/store", fileSystem: fileSystem).keys().count == 50)
    }

    @Test(
        "threads that read while others open and list the store find every key",
        .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func readingAtOnce() throws {
        let fileSystem = InMemoryFileSystem()
        let keys = (0..<500).map { KVKey<Int>("key.\($0)") }
        let missing = Atomic(0)
        for _ in 0..<10 {
            do {
                let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
                for (number, key) in keys.enumerated() { try store.set(key, value: number) }
            }
            // All objects of the store have been released, so the first thread reads the log again.
            DispatchQueue.concurrentPerform(iterations: 4) { thread in
                do {
                    let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
                    if thread == 0 { missing.wrappingAdd(keys.count - (try store.keys().count), ordering: .relaxed) }
                    for number in keys.indices.shuffled() where store.get(keys[number]) != number {
                        missing.wrappingAdd(1, ordering: .relaxed)
                    }
                } catch {
                    Issue.record(error)
                }
            }
        }
        #expect(missing.load(ordering: .relaxed) == 0)
    }

    @Test(
        "stores that are released on the utility queue are closed", .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func utilityQueue() throws {
        let fileSystem = InMemoryFileSystem()
        let group = DispatchGroup()
        for number in 0..<96 {
            DispatchQueue.global(qos: .utility).async(group: group) {
                do {
                    let store = try FileKVStore(at: POSIXPath("/store.\(number)"), fileSystem: fileSystem)
                    // Enough for a background job: more space is prepared before the first window is used up.
                    for _ in 0..<5 { try store.setRawValue([UInt8](repeating: 1, count: 50_000), named: "a") }
                } catch {
                    Issue.record(error)
                }
            }
        }
        #expect(group.wait(timeout: .now() + 30) == .success)
    }

    @Test(
        "several threads that wait for a shared store wait no longer than a single one",
        .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func lockTimeout() throws {
        let fixture = SharedFixture()
        let process = fixture.process(1)
        var options = fixture.options(1)
        options.lockTimeout = .milliseconds(400)
        let store = try FileKVStore(at: fixture.path, fileSystem: process.fileSystem, options: options)
        try store.set(key, value: 1)
        // Another process holds the lock.
        let other = fixture.process(2).fileSystem
        let file = try other.open("/store/#lock", .readWrite)
        try other.lock(file, .exclusive, waiting: false)
        let start = ContinuousClock.now
        let refused = Counter()
        let waiting = DispatchGroup()
        for _ in 0..<8 {
            waiting.enter()
            // Not on a queue, which runs only as many threads as there are cores.
            Thread.detachNewThread {
                if code({ try store.set(key, value: 2) })?.unavailability != nil {
                    _ = refused.next()
                }
                waiting.leave()
            }
        }
        waiting.wait()
        try other.close(file)
        #expect(refused.next() == 9)
        // In sequence they would wait for 3.2 seconds.
        #expect(start.duration(to: .now) < .milliseconds(2400))
        #expect(try store.read(key) == 1)
    }
}
