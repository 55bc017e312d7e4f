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

    @Test("use the threads of the store's directory, also below layers")
    func lanes() throws {
        let store = try FileKVStore(at: "/store", fileSystem: InMemoryFileSystem())
        let layered = ExpiringKVStore(NamespacedKVStore(store, namespace: "n"))
        #expect(BlockingLane.lane(of: store) === store.engine.lane)
        #expect(BlockingLane.lane(of: layered) === store.engine.lane)
        let migrating = MigratingKVStore(from: InMemoryKVStore(), to: layered)
        #expect(BlockingLane.lane(of: migrating) === store.engine.lane)
        #expect(store.engine.lane !== BlockingLane.general)
        #expect(BlockingLane.lane(of: NamespacedKVStore(InMemoryKVStore(), namespace: "n")) === BlockingLane.general)
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

@Suite("Group commit") struct GroupCommitTests {
    @Test(
        "a waiter woken as leader whose work is already done passes the lead on",
        .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func passedLead() throws {
        let commit = GroupCommit()
        let done = Atomic<UInt64>(0)
        let calls = Atomic(0)
        #expect(commit.begin(1) { false })
        let finished = DispatchSemaphore(value: 0)
        // The first waiter is not covered by the leader's flush, but its work is done by the time it runs.
        Thread.detachNewThread {
            let leads = commit.begin(5) { calls.wrappingAdd(1, ordering: .relaxed).oldValue > 0 }
            if leads { commit.end(flushed: 5) }
            finished.signal()
        }
        while commit.waiterCount < 1 { sched_yield() }
        Thread.detachNewThread {
            let leads = commit.begin(9) { done.load(ordering: .relaxed) >= 9 }
            if leads { commit.end(flushed: 9) }
            finished.signal()
        }
        while commit.waiterCount < 2 { sched_yield() }
        commit.end(flushed: 4)
        for _ in 0..<2 { #expect(finished.wait(timeout: .now() + 20) == .success) }
    }
}

@Suite("The states of a group commit") struct GroupCommitStateTests {
    private var state = GroupCommitState<Int>()

    @Test("one thread leads at a time, and the others wait")
    mutating func lead() {
        let leads = (1...3).map { state.begin(UInt64($0), $0) }
        #expect(leads == [true, false, false])
        #expect(state.waiterCount == 2)
    }

    @Test("a flush serves every waiter it covers and hands the lead to the first that it does not")
    mutating func handover() {
        for number in 1...5 { _ = state.begin(UInt64(number), number) }
        let outcome = state.end(flushed: 3)
        #expect(outcome.served == [2, 3])
        #expect(outcome.leader == 4)
        // The lead was handed over and is not free in between.
        let intruder = state.begin(9, 9)
        #expect(!intruder)
        let next = state.end(flushed: 4)
        #expect(next.served.isEmpty)
        #expect(next.leader == 5)
    }

    @Test("the lead is free when no thread waits")
    mutating func free() {
        _ = state.begin(1, 1)
        _ = state.begin(1, 2)
        let outcome = state.end(flushed: 1)
        #expect(outcome.served == [2])
        #expect(outcome.leader == nil)
        let leads = state.begin(2, 3)
        #expect(leads)
    }

    @Test("a leader expects as many threads as took part in the last flush")
    mutating func expectation() {
        for number in 1...3 { _ = state.begin(1, number) }
        _ = state.end(flushed: 1)
        _ = state.begin(2, 1)
        #expect(state.expectsMore)
        _ = state.begin(2, 2)
        #expect(state.expectsMore)
        _ = state.begin(2, 3)
        #expect(!state.expectsMore)
    }
}
