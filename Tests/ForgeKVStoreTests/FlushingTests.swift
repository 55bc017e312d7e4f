import Dispatch
import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import TestDepth
import Testing

@testable import ForgeKVStore

@Suite("Flushing and closing a store in a task", .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
struct FlushingTests {
    private let key = KVKey<Int>("a")

    @Test("block no thread of the pool while the device flushes")
    func pool() async throws {
        let fileSystem = FailingFileSystem()
        let device = BusyDevice()
        // More than the pool has threads.
        let stores = try (0..<ProcessInfo.processInfo.activeProcessorCount + 2).map { number in
            try FileKVStore(at: POSIXPath("/store-\(number)"), fileSystem: fileSystem)
        }
        for store in stores { try store.set(key, value: 1) }
        fileSystem.fail { operation, _ in
            if operation == .synchronize { device.flush() }
            return nil
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (number, store) in stores.enumerated() {
                group.addTask {
                    if number.isMultiple(of: 2) { try await store.flush() } else { try await store.shutDown() }
                }
            }
            // Runs in the pool.
            group.addTask {
                while device.flushCount < stores.count { await Task.yield() }
                device.release()
            }
            try await group.waitForAll()
        }
    }

    @Test("take no thread from another store while the device does not answer")
    func stuckDevice() async throws {
        let fileSystem = FailingFileSystem()
        let device = BusyDevice()
        let stuck = try FileKVStore(at: "/stuck", fileSystem: fileSystem)
        try stuck.set(key, value: 1)
        fileSystem.fail { operation, _ in
            if operation == .synchronize { device.flush() }
            return nil
        }
        let count = 2 * stuck.engine.lane.limit
        let layered = LocalAsyncKVStore(NamespacedKVStore(stuck, namespace: "n"), durability: .powerCut)
        let begun = Counter()
        let flushes = (0..<count).map { number in
            Task {
                _ = begun.next()
                if number.isMultiple(of: 2) { return try await stuck.flush() }
                var batch = KVBatch()
                try batch.set(KVKey<Int>("b"), value: number)
                try await layered.commit(batch, timeToLive: nil)
            }
        }
        while device.flushCount == 0 || begun.value < count { await Task.yield() }

        // Ends the test if a call of the other store waits for the device.
        let (isEnded, isLate) = (DispatchSemaphore(value: 0), Flag())
        Thread.detachNewThread {
            guard isEnded.wait(timeout: .now() + 20) == .timedOut else { return }
            isLate.set()
            device.release()
        }
        let other = try FileKVStore(at: "/other", fileSystem: InMemoryFileSystem())
        try other.set(key, value: 1)
        try await other.flush()
        _ = try await LocalAsyncKVStore(other).keys(prefix: "", after: nil, limit: 1)
        try await other.shutDown()
        #expect(!isLate.isSet)
        isEnded.signal()
        device.release()
        for flush in flushes { try await flush.value }
    }

    @Test("read what another process has written on another thread than the task's")
    func remoteChanges() async throws {
        let fixture = SharedFixture()
        let process = fixture.process(1)
        let (isArmed, isRead, isTask) = (Flag(), Flag(), Flag())
        let watched = InterceptedFileSystem(process.fileSystem) { (call) throws(FileSystemError) in
            guard isArmed.isSet, call.operation == .read else { return }
            isRead.set()
            withUnsafeCurrentTask { if $0 != nil { isTask.set() } }
        }
        let store = try FileKVStore(at: fixture.path, fileSystem: watched, options: fixture.options(1))
        try fixture.open(fixture.process(2)).setRawValue([1], named: "a")
        isArmed.set()
        #expect(try await LocalAsyncKVStore(RecordingKVStore(store)).entry(named: "a")?.bytes == [1])
        #expect(isRead.isSet && !isTask.isSet)
    }

    @Test("make earlier writes durable")
    func durability() async throws {
        try await forEachCrash(limit: TestDepth.limit(60, deep: 1_000), depth: 1) { [key] fileSystem, run in
            let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
            try store.set(key, value: 1)
            try await store.flush()
            run.acknowledge("flushed")
            try store.set(key, value: 2)
            try await store.shutDown()
            run.acknowledge("closed")
        } recover: { [key] fileSystem, crash in
            let value = try FileKVStore(at: "/store", fileSystem: fileSystem).get(key) ?? 0
            if crash.acknowledged.contains("flushed"), value < 1 { throw Lost() }
            if crash.acknowledged.contains("closed"), value < 2 { throw Lost() }
        }
    }

    private struct Lost: Error {}

    @Test("throw the errors of the blocking calls")
    func failures() async throws {
        let fileSystem = FailingFileSystem()
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
        try store.set(key, value: 1)
        fileSystem.fail(.synchronize)
        let flush = await #expect(throws: KVStoreError.self) { try await store.flush() }
        #expect(flush?.operation == .synchronize)
        let close = await #expect(throws: KVStoreError.self) { try await store.shutDown() }
        #expect(close?.code == .durabilityUnknown)
    }
}

/// A device whose flushes end when it is released.
private final class BusyDevice: Sendable {
    private let count = Atomic(0)
    private let isReleased = DispatchSemaphore(value: 0)

    /// The number of flushes that have begun.
    var flushCount: Int { count.load(ordering: .relaxed) }

    func flush() {
        count.add(1, ordering: .relaxed)
        isReleased.wait()
        isReleased.signal()
    }

    func release() { isReleased.signal() }
}
