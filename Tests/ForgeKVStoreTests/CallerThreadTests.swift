import Dispatch
import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Synchronization
import TestDepth
import Testing

@Suite("The thread of a caller that awaits a local store")
struct CallerThreadTests {
    enum Call: CaseIterable {
        case capabilities, entry, read, keys, entries, commit, flush

        func make(on store: LocalAsyncKVStore, over base: StuckKVStore) async throws {
            switch self {
            case .capabilities: _ = await store.capabilities()
            case .entry: _ = try await store.entry(named: "a")
            case .read: _ = try await store.read(KVKey<Int>("a"))
            case .keys: _ = try await store.keys(prefix: "", after: nil, limit: 1)
            case .entries: _ = try await store.entries(prefix: "", after: nil, limit: 1, at: nil)
            case .commit: try await store.commit(KVBatch(), timeToLive: nil)
            case .flush: try await base.flush()
            }
        }
    }

    @Test("is free while the call waits for a lock of the store", arguments: Call.allCases)
    func isFree(call: Call) async throws {
        let base = StuckKVStore()
        let store = LocalAsyncKVStore(base)
        // More calls than Swift's tasks have threads.
        let calls = (0..<2 * ProcessInfo.processInfo.activeProcessorCount + 8).map { _ in
            Task { try await call.make(on: store, over: base) }
        }
        while base.waitingCount == 0 { await Task.yield() }
        // Needs a thread of Swift's tasks.
        await Task.detached { base.release() }.value
        for call in calls { try await call.value }
        #expect(!base.isLate)
    }

    @Test("looks up a value in memory itself")
    func looksUpInMemory() async throws {
        let directory = TemporaryDirectory()
        let lane = BlockingLane.lane(of: try POSIXPath(directory.url))
        let base = try FileKVStore(at: directory.url)
        try base.set(KVKey<Int>("a"), value: 1)
        let store = LocalAsyncKVStore(base)
        let gate = DispatchSemaphore(value: 0)
        let stuck = (0..<lane.limit).map { _ in Task { await lane.run { gate.wait(timeout: .now() + 60) } } }
        while lane.threadCount + lane.waitingCount < stuck.count { await Task.yield() }
        #expect(try await store.read(KVKey<Int>("a")) == 1)
        #expect(try await store.entry(named: "b") == nil)
        // A list needs a thread of the lane.
        let keys = Task { try await store.keys(prefix: "", after: nil, limit: 2).names }
        while lane.threadCount + lane.waitingCount <= stuck.count { await Task.yield() }
        for _ in stuck { gate.signal() }
        for task in stuck { #expect(await task.value == .success) }
        #expect(try await keys.value == ["a"])
    }
}

/// A layer whose calls wait for a lock that another thread holds.
final class StuckKVStore: KVLayer, KVTransactionalStoring {
    let base = InMemoryKVStore()
    private let condition = NSCondition()
    private let state = Mutex((isFree: false, isLate: false, waitingCount: 0))

    var waitingCount: Int { state.withLock { $0.waitingCount } }

    /// Whether a call has waited until the test failed.
    var isLate: Bool { state.withLock { $0.isLate } }

    func release() {
        condition.lock()
        defer { condition.unlock() }
        state.withLock { $0.isFree = true }
        condition.broadcast()
    }

    private func wait() {
        condition.lock()
        defer { condition.unlock() }
        state.withLock { $0.waitingCount += 1 }
        // A task may have to wait for all other tests.
        let end = Date(timeIntervalSinceNow: TimeInterval(60 * TestDepth.hangLimitInMinutes))
        while !state.withLock({ $0.isFree }) {
            guard !condition.wait(until: end) else { continue }
            state.withLock { ($0.isFree, $0.isLate) = (true, true) }
            condition.broadcast()
        }
    }

    func entry(named name: String) throws -> KVEntry? {
        wait()
        return try base.entry(named: name)
    }

    func keys() throws -> [String] {
        wait()
        return try base.keys()
    }

    func snapshot() throws -> KVSnapshot {
        wait()
        return try base.snapshot()
    }

    func commit(_ batch: KVBatch) throws {
        wait()
        try base.commit(batch)
    }

    func synchronize() throws { wait() }

    func subscribe(to scope: KVScope) -> KVChanges? {
        wait()
        return base.subscribe(to: scope)
    }
}
