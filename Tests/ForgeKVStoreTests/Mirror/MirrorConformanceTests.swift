import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import TestDepth
import Testing
@testable import ForgeKVStore

@Suite("A mirror conforms", .serialized)
struct MirrorConformanceTests {
    /// Mirrors block the threads of these checks, so they run on threads of their own.
    private func run(_ check: ConformanceCheck<any KVRawStoring>, over store: any AsyncKVStoring) async throws {
        var configuration = MirroredKVStore.Configuration.test
        configuration.synchronousWrites = .blocking(upTo: TestDepth.hangLimit)
        let mirror = try await MirroredKVStore(store, configuration).caughtUp()
        try await withTaskExecutorPreference(ThreadExecutor.shared) { try await check.run(on: mirror) }
        try await mirror.close()
    }

    @Test(
        "over a local store, with writes that block",
        arguments: TestDepth.sample(ConformanceChecks.rawKeyValueStore, every: 2))
    func local(_ check: ConformanceCheck<any KVRawStoring>) async throws {
        try await run(check, over: LocalAsyncKVStore(InMemoryKVStore()))
    }

    @Test(
        "over a store with revisions, with writes that block",
        arguments: TestDepth.leavingOut("4 MiB", of: ConformanceChecks.rawKeyValueStore))
    func revisions(_ check: ConformanceCheck<any KVRawStoring>) async throws {
        try await run(check, over: RemoteDouble())
    }

    @Test("its remote store does, as the store itself", arguments: ConformanceChecks.asyncKeyValueStore)
    func remote(_ check: ConformanceCheck<AsyncKVStoreUnderTest>) async throws {
        let store = RemoteDouble()
        let mirror = try MirroredKVStore(store, .test)
        try await check.run(on: AsyncKVStoreUnderTest(mirror.remote, other: store, pass: { _ in }))
        try await mirror.close()
    }

    @Test("a namespace of a remote store is mirrored under the caller's names")
    func namespace() async throws {
        let store = RemoteDouble()
        let part = NamespacedKVStore(store, namespace: "n")
        try await part.set(KVKey<Int>("a"), value: 1)
        try await store.set(KVKey<Int>("other"), value: 1)
        let mirror = try await MirroredKVStore(part, .test).caughtUp()
        #expect(try mirror.numbers == ["a": 1])
        try await mirror.remote.set(KVKey<Int>("b"), value: 2)
        #expect(try mirror.numbers == ["a": 1, "b": 2])
        #expect(store.state.withLock { $0.listCount } == 1)
    }
}

/// Runs each job of a task on a thread of its own, so that tasks may block: those of Dispatch are the pool's.
final class ThreadExecutor: TaskExecutor {
    static let shared = ThreadExecutor()

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        Thread.detachNewThread { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

@Suite("The batches that a mirror receives")
struct MirrorBatchTests {
    private func entry(_ value: Int, _ revision: UInt64) -> KVEntry {
        KVEntry(bytes: encoded(value), revision: revision)
    }

    @Test("the parts of a batch become visible with the last one", arguments: [true, false])
    func parts(_ isSplit: Bool) async throws {
        let store = ScriptedStore(isSplit: isSplit)
        store.base.change([("a", 1), ("b", 1), ("c", 1)])
        store.deliver([.resync])
        let mirror = try await MirroredKVStore(store, .test).caughtUp()
        for value in 2...20 {
            let revision = store.base.change([("a", value), ("b", nil), ("c", value)])
            store.deliver([.changed(name: "a", entry: entry(value, revision), revision: revision - 1)])
            store.deliver(
                [.changed(name: "b", entry: nil, revision: revision - 1)], upTo: isSplit ? revision - 1 : nil)
            try await until { store.isEmpty }
            try await Task.sleep(for: .milliseconds(2))  // Nothing is visible, however long it takes.
            #expect(mirror.get(KVKey<Int>("a")) == value - 1 && mirror.get(KVKey<Int>("c")) == value - 1)
            #expect(mirror.contains(KVKey<Int>("b")) == (value == 2))
            #expect(mirror.revision == revision - 1)
            store.deliver([.changed(name: "c", entry: entry(value, revision), revision: revision)], upTo: revision)
            try await mirror.wait(for: revision, upTo: TestDepth.hangLimit)
            #expect(try mirror.numbers == ["a": value, "c": value])
        }
    }

    @Test("a list has names and values of any size, and the last of equal names")
    func loading() async throws {
        let store = InMemoryKVStore()
        let sizes = [0, 1, 8, 15, 16, 24, 25, 1_023, 1_024, 1_025, 100_000]
        let list: MirroredList = sizes.enumerated().map { index, size in
            let name = String(repeating: "n", count: min(size, KeyName.maximumLength - 1)) + "\(index % 10)"
            return (name, KVEntry(bytes: [UInt8](repeating: UInt8(index), count: size), revision: UInt64(index + 1)))
        }
        let last = KVEntry(bytes: [7], revision: 99)
        let reported = Mutex<[String]>([])
        let observation = Observation(store) { names in reported.withLock { $0 += names ?? [] } }
        try store.load(list + [(list[3].name, last)])
        for (index, (name, entry)) in list.enumerated() {
            #expect(try store.entry(named: name) == (index == 3 ? last : entry))
        }
        #expect(store.count == sizes.count)
        let names = Set(list.map(\.name))
        try await until("every name is reported") { Set(reported.withLock { $0 }) == names }
        withExtendedLifetime(observation) {}
    }

    @Test("a batch whose connection ends is made whole by its repetition, or by a list", arguments: [true, false])
    func cut(_ isListed: Bool) async throws {
        let store = ScriptedStore()
        store.base.change([("a", 1), ("b", 1)])
        store.deliver([.resync])
        let mirror = try await MirroredKVStore(store, .test).caughtUp()
        store.base.change([("a", 2), ("b", 2)])
        store.deliver([.changed(name: "a", entry: entry(2, 2), revision: 1)])
        try await until { store.isEmpty }
        if isListed {
            store.deliver([.resync])
        } else {
            // As a source that connects again by itself.
            store.deliver([], upTo: 1)
            try await until { store.isEmpty }
            #expect(try mirror.numbers == ["a": 1, "b": 1])
            store.deliver(
                [
                    .changed(name: "a", entry: entry(2, 2), revision: 1),
                    .changed(name: "b", entry: entry(2, 2), revision: 2),
                ], upTo: 2)
        }
        try await mirror.wait(for: 2, upTo: TestDepth.hangLimit)
        #expect(try mirror.numbers == ["a": 2, "b": 2])
    }
}

@Suite("A mirror whose remote store cannot be reached")
struct MirrorOutageTests {
    @Test("the mirrors of a fleet list at different times, whatever makes them list", arguments: [true, false])
    func spread(_ waits: Bool) async throws {
        let lists = Mutex<[ContinuousClock.Instant]>([])
        let remote = RemoteDouble { _ in lists.withLock { $0.append(.now) } }
        remote.state.withLock { $0.replays = false }
        remote.set("a", 1)
        var configuration = MirroredKVStore.Configuration.test(patience: .milliseconds(20))
        configuration.listJitter = .seconds(2)
        var fleet: [MirroredKVStore] = []
        for _ in 0..<20 { fleet.append(try MirroredKVStore(remote, configuration)) }
        for mirror in fleet { try await mirror.wait(upTo: TestDepth.hangLimit) }
        // The first list is not delayed by the spread.
        let start = lists.withLock { $0 }
        #expect(start.count == 20)
        remote.state.withLock { $0.isDown = true }
        for mirror in fleet { try await until { !mirror.isCaughtUp } }
        let revision = remote.set("a", 2)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for mirror in fleet where waits {
                group.addTask { try await mirror.wait(for: revision, upTo: TestDepth.hangLimit) }
            }
            try await Task.sleep(for: .milliseconds(100))  // In any order the lists are spread.
            remote.state.withLock { $0.isDown = false }
            try await group.waitForAll()
        }
        for mirror in fleet { try await until { mirror.get(KVKey<Int>("a")) == 2 } }
        let times = lists.withLock { $0.dropFirst(20) }
        #expect(times.count == 20)
        #expect(try #require(times.max()) - #require(times.min()) > .milliseconds(500))
    }

    @Test("after an outage during which a revision is waited for, the changes are replayed and not listed")
    func replayAfterWaiting() async throws {
        let remote = RemoteDouble()
        remote.set("a", 1)
        let mirror = try await MirroredKVStore(remote, .test(patience: .seconds(1))).caughtUp()
        remote.state.withLock { $0.isDown = true }
        let revision = remote.set("a", 2)
        let waiting = Task { try await mirror.wait(for: revision, upTo: TestDepth.hangLimit) }
        let error = await #expect(throws: KVStoreError.self) {
            try await mirror.wait(for: revision, upTo: .seconds(3))
        }
        #expect(error?.code == .timeout)
        remote.state.withLock { $0.isDown = false }
        try await waiting.value
        #expect(mirror.get(KVKey<Int>("a")) == 2)
        #expect(remote.state.withLock { $0.listCount } == 1)
    }

    @Test("a silent stream is kept while the store cannot be asked")
    func silentStreamInAnOutage() async throws {
        let remote = RemoteDouble()
        remote.set("a", 1)
        let isDown = Mutex(false)
        let store = FaultingAsyncKVStore(remote) { call in
            call.operation == .entries && isDown.withLock { $0 } ? .before(.unavailable(.server)) : nil
        }
        let mirror = try await MirroredKVStore(store, .test(patience: .milliseconds(8))).caughtUp()
        isDown.withLock { $0 = true }
        remote.state.withLock { $0.isMuted = true }
        let revision = remote.set("a", 2)
        let error = await #expect(throws: KVStoreError.self) {
            try await mirror.wait(for: revision, upTo: .milliseconds(400))
        }
        #expect(error?.code == .timeout)
        remote.state.withLock { $0.isMuted = false }
        try await mirror.wait(for: revision, upTo: TestDepth.hangLimit)
        let counts: [Int] = remote.state.withLock { [$0.listCount, $0.connectionCount] }
        #expect(counts == [1, 1])
    }

    @Test("the wait after a failure grows while the store can be asked, but its stream ends at once")
    func backoff() async throws {
        let remote = RemoteDouble()
        remote.set("a", 1)
        let fails = Mutex(false)
        let store = FaultingAsyncKVStore(remote) { call in
            call.operation == .changes && fails.withLock { $0 } ? .before(.unavailable(.server)) : nil
        }
        var configuration = MirroredKVStore.Configuration.test
        configuration.longestBackoff = .seconds(600)
        let mirror = try await MirroredKVStore(store, configuration).caughtUp()
        fails.withLock { $0 = true }
        remote.set("b", 1)
        try await until { mirror.failure != nil }
        // The limits of 13 waits have a sum of 400 seconds, those without growth of less than one.
        let start = ContinuousClock.now
        while remote.state.withLock({ $0.checkCount }) < 14, ContinuousClock.now - start < .seconds(4) {
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(remote.state.withLock { $0.checkCount } < 14)
        try await mirror.close()
    }

    @Test("a list that fails because of the connection is repeated with pages of the same size")
    func pageSize() async throws {
        let sizes = Mutex<[Int]>([])
        let remote = RemoteDouble()
        remote.set("a", 1)
        let codes: [KVStoreError.Code?] = [.unavailable(.server), .refused, .tooLarge, .timeout, nil]
        let store = RecordedPages(base: remote) { limit in
            let index = sizes.withLock { sizes in
                sizes.append(limit)
                return sizes.count - 1
            }
            return codes[min(index, codes.count - 1)]
        }
        _ = try await MirroredKVStore(store, .test).caughtUp()
        #expect(sizes.withLock { $0 } == [500, 500, 500, 125, 31])
    }
}

/// A store whose lists fail as a rule says.
private struct RecordedPages: ForwardingStore {
    let base: RemoteDouble
    let failure: @Sendable (_ limit: Int) -> KVStoreError.Code?

    func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        if let code = failure(limit) { throw KVStoreError(code, .keys) }
        return try await base.entries(prefix: prefix, after: after, limit: limit, at: revision)
    }
}
