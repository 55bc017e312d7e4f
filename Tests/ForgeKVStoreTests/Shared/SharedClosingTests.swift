import Dispatch
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

@testable import ForgeKVStore

@Suite("Closing a shared store beside its other calls")
struct SharedClosingTests {
    private let fixture = SharedFixture()
    private let a = KVKey<Int>("a")

    private func slots() throws -> [Int32] {
        let content = SharedPageContent(
            try fixture.bytes("#shared"), inode: try fixture.fileSystem.status("/store/#shared").inode)
        return (0..<SharedPageContent.slotCount).compactMap { content.process(inSlot: $0)?.id }
    }

    /// A file system that calls a closure once, before a lock is acquired or released.
    private func beforeLock(
        of process: SharedFixture.Process, _ body: @escaping @Sendable () -> Void
    ) -> (fileSystem: InterceptedFileSystem<InMemoryFileSystem>, arm: @Sendable () -> Void) {
        let armed = Flag()
        let done = Flag()
        let intercepted = InterceptedFileSystem(process.fileSystem) { call throws(FileSystemError) in
            guard call.operation == .lock, armed.isSet, !done.isSet else { return }
            done.set()
            body()
        }
        return (intercepted, { armed.set() })
    }

    /// Calls that acquire the lock of a shared store.
    private static let calls: [@Sendable (FileKVStore) throws -> Void] = [
        { try $0.set(KVKey<Int>("a"), value: 2) },
        { try $0.set(KVKey<[String]>("b"), value: ["b"]) },
        { try $0.removeAll() },
        { try $0.batch { try $0.set(KVKey<Int>("a"), value: 2) } },
        { try $0.compact() },
    ]

    @Test(
        "a call that waits for the lock while the store is closed writes nothing and stays out of the shared page",
        arguments: 0..<Self.calls.count)
    func waitingCall(_ call: Int) throws {
        let isWaiting = DispatchSemaphore(value: 0)
        let isClosed = DispatchSemaphore(value: 0)
        let (fileSystem, arm) = beforeLock(of: fixture.process(1)) { isWaiting.signal() }
        var options = fixture.options(1)
        options.lockTimeout = .seconds(60)
        let store = try FileKVStore(at: fixture.path, fileSystem: fileSystem, options: options)
        // Another process has the lock while the call begins.
        let holder = fixture.process(2)
        let file = try holder.fileSystem.open("/store/#lock", .readWrite)
        try holder.fileSystem.lock(file, .exclusive, waiting: false)
        arm()
        let outcome = Mutex<KVStoreError.Code?>(nil)
        let group = DispatchGroup()
        DispatchQueue.global().async(group: group) {
            let found = code { try Self.calls[call](store) }
            outcome.withLock { $0 = found }
        }
        isWaiting.wait()
        DispatchQueue.global().async(group: group) {
            _ = code { try store.close() }
            isClosed.signal()
        }
        // Closing may end before the call, or wait for it.
        _ = isClosed.wait(timeout: .now() + .milliseconds(200))
        try holder.fileSystem.close(file)
        group.wait()
        #expect(outcome.withLock { $0 } == nil || outcome.withLock { $0 } == .unavailable(.closed))
        #expect(try slots().isEmpty)
        #expect(throws: Never.self) { try fixture.open(fixture.process(3), .exclusive).close() }
    }

    @Test(
        "an exclusive opening succeeds after each of many closings beside writers, compaction, snapshots and a process")
    func manyRounds() async throws {
        // Real threads: every pause between two calls is one in which the store may be closed.
        let rounds = TestDepth.limit(150, deep: 10_000)
        let directory = TemporaryDirectory()
        let path = POSIXPath(directory.url.path)
        func options(_ sharing: FileKVStore.Sharing) -> FileKVStore.Options {
            var options = fixture.recorder.options(compactionFloorInBytes: 300)
            options.sharing = sharing
            options.compactsInBackground = true
            options.lockTimeout = .seconds(60)
            return options
        }
        let refused = Mutex<[String]>([])
        let acknowledged = Atomic(0)
        for round in 0..<rounds {
            // Another process, as far as the lock and the page are concerned: its own descriptors and its own slot.
            let other = try FileKVStore(
                at: path, fileSystem: InterceptedFileSystem(SystemFileSystem()) { _ in }, options: options(.shared))
            let store = try FileKVStore(at: path, options: options(.shared))
            let group = DispatchGroup()
            for thread in 0..<3 {
                DispatchQueue.global().async(group: group) {
                    var number = 0
                    while true {
                        number += 1
                        do {
                            switch thread {
                            case 0: try store.set(KVKey<Int>("\(number % 20)"), value: number)
                            case 1: number.isMultiple(of: 4) ? try store.compact() : try store.remove(KVKey<Int>("5"))
                            default: _ = try store.snapshot()
                            }
                            acknowledged.add(1, ordering: .relaxed)
                            if store.engine.isClosed { return }
                        } catch {
                            return
                        }
                    }
                }
            }
            DispatchQueue.global().async(group: group) {
                for number in 0..<5 { _ = code { try other.set(KVKey<Int>("other"), value: number) } }
                _ = code { try other.close() }
            }
            if round.isMultiple(of: 3) { usleep(UInt32(round % 17) * 50) }
            _ = code { try store.close() }
            group.wait()
            do {
                try FileKVStore(at: path, options: options(.exclusive)).close()
            } catch {
                refused.withLock { $0.append("round \(round): \(error)") }
                break
            }
        }
        #expect(refused.withLock { $0 } == [], "of \(rounds) rounds")
    }
}
