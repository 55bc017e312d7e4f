import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

@testable import ForgeKVStore

@Suite("Releasing a store")
struct ReleaseTests {
    /// Holds the only reference.
    private final class Owner: Sendable {
        let store = Mutex<FileKVStore?>(nil)
        let hasReleased = DispatchSemaphore(value: 0)
    }

    @Test(
        "in the issue handler, in another thread, closes the store", .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func inBackground() throws {
        let memory = InMemoryFileSystem()
        let fileSystem = FaultingFileSystem(memory, plan: FaultPlan([.on(.rename, call: 3, do: .fail(.ioError))]))
        let owner = Owner()
        let recorder = IssueRecorder()
        var options = recorder.options(compactionFloorInBytes: 1000)
        options.compactsInBackground = true
        options.onIssue = { issue in
            recorder.record(issue)
            owner.store.withLock { $0 = nil }
            owner.hasReleased.signal()
        }
        let key = KVKey<Int>("count")
        do {
            let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
            owner.store.withLock { $0 = store }
        }
        for number in 0..<500 {
            // Until it is released.
            try owner.store.withLock { try $0?.set(key, value: number) }
        }
        owner.hasReleased.wait()
        #expect(recorder.descriptions.first?.hasPrefix("compaction failed") == true)
        // Waits until the store is closed.
        let again = try FileKVStore(at: "/store", fileSystem: fileSystem, options: recorder.options())
        #expect(try again.read(key) != nil)
        #expect(try again.damageReports().isEmpty)
    }

    /// Opens a store when it goes.
    private final class Opener: Sendable {
        let fileSystem = InMemoryFileSystem()

        deinit {
            do { _ = try FileKVStore(at: "/other", fileSystem: fileSystem) } catch { Issue.record(error) }
        }
    }

    @Test("a closed store whose last object goes while it is opened again may open other stores with its handler")
    func besideOpening() async {
        // If opening waits for itself, so does every other test of the process.
        await #expect(processExitsWith: .success) {
            Thread.detachNewThread {
                sleep(120)
                _exit(9)
            }
            let fileSystem = InMemoryFileSystem()
            for _ in 0..<TestDepth.limit(1_000, deep: 200_000) {
                let owner = Owner()
                do {
                    let opener = Opener()
                    var options = FileKVStore.Options()
                    options.onIssue = { _ in withExtendedLifetime(opener) {} }
                    let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
                    try store.close()
                    owner.store.withLock { $0 = store }
                }
                DispatchQueue.concurrentPerform(iterations: 2) { thread in
                    if thread == 0 {
                        owner.store.withLock { $0 = nil }
                    } else {
                        do { try FileKVStore(at: "/store", fileSystem: fileSystem).close() } catch { _exit(8) }
                    }
                }
            }
        }
    }

    @Test(
        "while another thread waits for it, other stores can be opened in the issue handler",
        .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func anotherStore() throws {
        let memory = InMemoryFileSystem()
        // The third rename is that of the log compacted at closing.
        let fileSystem = FaultingFileSystem(memory, plan: FaultPlan([.on(.rename, call: 3, do: .fail(.ioError))]))
        let recorder = IssueRecorder()
        let hasOpened = DispatchSemaphore(value: 0)
        var options = recorder.options()
        options.onIssue = { issue in
            recorder.record(issue)
            let other = Thread {
                do { _ = try FileKVStore(at: "/store", fileSystem: fileSystem) } catch { Issue.record(error) }
                hasOpened.signal()
            }
            other.start()
            // Most likely it waits by then; otherwise it runs in turn.
            usleep(50_000)
            do { _ = try FileKVStore(at: "/other", fileSystem: fileSystem) } catch { Issue.record(error) }
        }
        let key = KVKey<String>("text")
        do {
            let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
            for count in 0..<20 { try store.set(key, value: String(repeating: "x", count: 1000 + count)) }
        }
        hasOpened.wait()
        #expect(recorder.issues.count == 1)
        #expect(recorder.descriptions.first?.hasPrefix("compaction failed") == true)
    }
}
