import ChildProcesses
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

    @Test(
        "a closed store whose last object goes while it is opened again may open other stores with its handler",
        .onOwnThreads)
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

@Suite("A store whose directory was removed while it was open") struct RemovedDirectoryTests {
    private let fileSystem = InMemoryFileSystem()
    private let key = KVKey<Int>("a")

    @Test("throws when writes without a name are to be made durable", arguments: FileKVStore.Sharing.allCases)
    func removed(_ sharing: FileKVStore.Sharing) throws {
        var options = IssueRecorder().options()
        options.sharing = sharing
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
        try store.set(key, value: 1)
        try store.synchronize()
        try fileSystem.removeTree("/store")
        #expect(throws: KVStoreError.self) {
            try store.set(key, value: 2)
            try store.synchronize()
        }
        #expect(throws: KVStoreError.self) { try store.synchronize() }
        #expect(try store.read(key) != nil)
    }

    @Test("throws when it is closed", arguments: FileKVStore.Sharing.allCases, [false, true])
    func closing(_ sharing: FileKVStore.Sharing, isFlushed: Bool) throws {
        var options = IssueRecorder().options()
        options.sharing = sharing
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
        try store.set(key, value: 1)
        if isFlushed { try store.synchronize() }
        try fileSystem.removeTree("/store")
        #expect(code { try store.close() } == .noStore)
        #expect(try store.read(key) == 1)
        let anew = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
        #expect(try anew.read(key) == nil)
    }

    @Test("throws when it is closed after another program has truncated the log")
    func closingTruncated() throws {
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: IssueRecorder().options())
        for number in 0..<20 { try store.set(KVKey<Int>("key.\(number)"), value: number) }
        try fileSystem.truncate(.path("/store/log"), to: 200)
        #expect(code { try store.close() } == .damaged)
    }

    @Test("also throws if another log has replaced its own")
    func replaced() throws {
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: IssueRecorder().options())
        try store.set(key, value: 1)
        try fileSystem.rename("/store/log", to: "/store/old")
        let file = try fileSystem.open("/store/log", .writeOnly, options: [.create], permissions: .privateFile)
        try fileSystem.close(file)
        #expect(throws: KVStoreError.self) { try store.synchronize() }
    }

    @Test("also throws if another program has truncated the log, and then refuses writes", arguments: [0, 200])
    func truncated(size: Int64) throws {
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: IssueRecorder().options())
        for number in 0..<20 { try store.set(KVKey<Int>("key.\(number)"), value: number) }
        try store.synchronize()
        try fileSystem.truncate(.path("/store/log"), to: size)
        #expect(throws: KVStoreError.self) {
            try store.set(key, value: 1)
            try store.synchronize()
        }
        #expect(throws: KVStoreError.self) { try store.set(key, value: 2) }
        #expect(try store.read(KVKey<Int>("key.7")) == 7)
    }

    @Test("does not replace another program's log, neither by compacting nor by closing")
    func foreignLog() throws {
        do {
            let backup = try FileKVStore(at: "/backup", fileSystem: fileSystem, options: IssueRecorder().options())
            try backup.set(KVKey<String>("precious"), value: "kept")
        }
        let recorder = IssueRecorder()
        do {
            let store = try FileKVStore(
                at: "/store", fileSystem: fileSystem, options: recorder.options(compactionFloorInBytes: 0))
            for number in 0..<50 { try store.set(key, value: number) }
            try fileSystem.rename("/backup/log", to: "/store/log")
            let error = #expect(throws: KVStoreError.self) { try store.compact() }
            #expect(error?.code == .noStore && error?.operation == .compact)
            for number in 0..<500 { try store.set(key, value: number) }
        }
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: recorder.options())
        #expect(store.get(KVKey<String>("precious")) == "kept")
    }

    @Test("reports the key, and that the write may be lost, if a durable set cannot be flushed")
    func durableSet() throws {
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: IssueRecorder().options())
        try store.set(key, value: 1, durability: .full)
        try fileSystem.removeTree("/store")
        let error = #expect(throws: KVStoreError.self) { try store.set(key, value: 2, durability: .full) }
        #expect(error?.code == .durabilityUnknown && error?.operation == .set && error?.key == "a")
        #expect(try store.read(key) == 2)
    }
}
