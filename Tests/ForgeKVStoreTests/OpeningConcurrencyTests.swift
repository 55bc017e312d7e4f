import ChildProcesses
import Dispatch
import ForgeCoding
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

@Suite("Options at the limits of their ranges") struct ExtremeOptionsTests {
    @Test("an unreachable compaction floor does not trap", .onOwnThreads)
    func unreachableFloor() async {
        await #expect(processExitsWith: .success) {
            let store = try FileKVStore(
                at: "/store", fileSystem: InMemoryFileSystem(), options: .init(compactionFloorInBytes: .max))
            for number in 0..<100 { try store.set(KVKey<Int>("a"), value: number) }
        }
    }

    @Test("a lock timeout may be as long as any duration", .onOwnThreads)
    func endlessTimeout() async {
        await #expect(processExitsWith: .success) {
            let fileSystem = InMemoryFileSystem()
            let directory = try fileSystem.open("/", .readOnly, options: [.directory])
            for timeout in [Duration(_high: .max, low: .max), Duration(_high: .min, low: 0)] {
                _ = try StoreLock(.exclusive, waitingAtMost: timeout, at: directory, on: fileSystem)
            }
        }
    }

    @Test(
        "a value above 256 MiB within the limit can be read back",
        .enabled(if: TestDepth.isDeep, "512 MiB of memory: only in deep runs"))
    func largeValue() throws {
        let directory = TemporaryDirectory()
        let key = KVKey<Data>("large")
        let value = Data(repeating: 7, count: (256 << 20) + 100)
        let options = FileKVStore.Options(maximumValueSizeInBytes: 512 << 20)
        do {
            let store = try FileKVStore(at: directory.url, options: options)
            try store.set(key, value: value)
            #expect(try store.read(key) == value)
        }
        // The limit of the reading process may be lower.
        let store = try FileKVStore(at: directory.url)
        #expect(try store.read(key) == value)
    }

    @Test("all writes obey the limit with which the store was opened, whichever object makes them")
    func oneLimit() throws {
        let fileSystem = InMemoryFileSystem()
        for (first, second) in [(10, 1_000), (1_000, 10)] {
            let path = POSIXPath("/\(first)")
            let owner = try FileKVStore(
                at: path, fileSystem: fileSystem, options: .init(maximumValueSizeInBytes: first))
            let other = try FileKVStore(
                at: path, fileSystem: fileSystem, options: .init(maximumValueSizeInBytes: second))
            let key = KVKey<[UInt8]>("a")
            let value = [UInt8](repeating: 7, count: 100)
            let bytes = try ValueTable.encode(value, for: key)
            let changes: [(FileKVStore) throws -> Void] = [
                { try $0.set(key, value: value) }, { try $0.setRawValue(bytes, named: "a") },
                { try $0.batch { try $0.set(key, value: value) } },
            ]
            for store in [owner, other] {
                for change in changes {
                    #expect(code { try change(store) } == (first == 10 ? .valueTooLarge : nil))
                }
            }
        }
    }

    #if os(Linux)
    @Test(
        "a long text takes memory once, and none when it was replaced", .onOwnThreads,
        arguments: FileKVStore.Sharing.allCases)
    func memory(_ sharing: FileKVStore.Sharing) async {
        let directory = TemporaryDirectory()
        let path = directory.url.path
        await #expect(processExitsWith: .success) {
            [path = path as String, isShared = (sharing == .shared) as Bool] in
            func anonymousMemory() throws -> Int {
                let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
                let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("RssAnon:") })
                return try #require(Int(line.split(separator: " ").dropLast().last ?? "")) << 10
            }
            let key = KVKey<String>("a")
            let store = try FileKVStore(
                at: URL(filePath: path), options: .init(sharing: isShared ? .shared : .exclusive))
            try store.set(key, value: "short")
            let before = try anonymousMemory()
            let count = TestDepth.limit(16 << 20, deep: 64 << 20)
            try store.set(key, value: String(repeating: "x", count: count))
            // The value in the table; neither the encoder nor the log keeps its bytes.
            let kept = try anonymousMemory() - before
            #expect(kept < count * 3 / 2, "\(kept)")
            #expect(store.get(key)?.utf8.count == count)
            // Enough for the old value to be reclaimed. On a busy machine readers may delay that, so it is tried again.
            var growth = Int.max
            for _ in 0..<50 where growth >= count / 2 {
                for number in 0..<2_000 { try store.set(key, value: "short \(number)") }
                growth = try anonymousMemory() - before
            }
            #expect(growth < count / 2, "\(growth)")
        }
    }
    #endif

    @Test("a value within the limit can be encoded and decoded")
    func coderLimit() {
        let options = FileKVStore.Options(maximumValueSizeInBytes: .max)
        #expect(ValueTable.coder.maximumSize >= options.valueLimit)
        #expect(
            options.valueLimit + LogRecord.payloadPrefixSize + KVKey<Int>.maximumNameLength
                == LogRecord.maximumPayloadSize)
        #expect(FileKVStore.Options(maximumValueSizeInBytes: -1).valueLimit == 0)
    }

    @Test("the defaults are those that are documented")
    func defaults() {
        let options = FileKVStore.Options()
        #expect(options.access == .readWrite && options.sharing == .exclusive)
        #expect(options.maximumValueSizeInBytes == 256 << 20 && options.valueLimit == 256 << 20)
        #expect(options.compactionFloorInBytes == 4 << 20 && options.compactsInBackground)
        #expect(options.lockTimeout == .seconds(10) && options.pollingInterval == .milliseconds(20))
        #expect(!options.isExcludedFromBackup && !options.isOnlyUse && options.isMapped)
    }
}
