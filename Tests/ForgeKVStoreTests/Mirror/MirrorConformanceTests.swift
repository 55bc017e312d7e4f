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

    @Test("a write that blocks for too long is cancelled, and says that its outcome is unknown")
    func lateWrite() async throws {
        let store = WaitingWrites()
        var configuration = MirroredKVStore.Configuration.test
        configuration.synchronousWrites = .blocking(upTo: .milliseconds(1))
        let mirror = try await MirroredKVStore(store, configuration).caughtUp()
        let error = await withTaskExecutorPreference(ThreadExecutor.shared) {
            #expect(throws: KVStoreError.self) { try mirror.remove(KVKey<Int>("a")) }
        }
        #expect(error?.code == .unknownOutcome)
        #expect(error?.operation == .remove && error?.key == "a")
        try await until { store.isCancelled.isSet }
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

    @Test("a namespace of a remote store has the identifier of no other namespace, nor that of the store")
    func identifiers() async throws {
        let store = RemoteDouble()
        var identifiers: Set<String?> = [try await store.entries(prefix: "", after: nil, limit: 1, at: nil).storeID]
        for name in ["n", "m"] {
            let part = NamespacedKVStore(store, namespace: name)
            identifiers.insert(try await part.entries(prefix: "", after: nil, limit: 1, at: nil).storeID)
        }
        #expect(identifiers.count == 3 && !identifiers.contains(nil))
    }
}

/// A store whose writes wait until they are cancelled.
private final class WaitingWrites: ForwardingStore {
    let base = RemoteDouble()
    let isCancelled = Flag()

    func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        do { try await Task.sleep(for: .seconds(3_600)) } catch { isCancelled.set() }
        throw KVStoreError(.cancelled, .batch)
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

    @Test("a name that changes twice in an update has the last state, and a list hides what came before it")
    func repeatedNames() async throws {
        let store = ScriptedStore()
        store.base.change([("a", 1), ("b", 1)])
        store.deliver([.resync])
        let mirror = try await MirroredKVStore(store, .test).caughtUp()
        store.deliver(
            [
                .changed(name: "new", entry: entry(2, 2), revision: 2),
                .changed(name: "a", entry: entry(2, 3), revision: 3), .changed(name: "a", entry: nil, revision: 4),
                .changed(name: "b", entry: nil, revision: 5), .changed(name: "new", entry: nil, revision: 6),
                .changed(name: "b", entry: entry(7, 7), revision: 7),
            ], upTo: 7)
        try await mirror.wait(for: 7, upTo: TestDepth.hangLimit)
        #expect(try mirror.numbers == ["b": 7])
        #expect(mirror.revision == 7)
        for value in 2...8 { store.base.set("a", value) }
        store.deliver([.changed(name: "gone", entry: entry(8, 8), revision: 8), .resync], upTo: 8)
        try await mirror.wait(for: 8, upTo: TestDepth.hangLimit)
        #expect(try mirror.numbers == ["a": 8, "b": 1])
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

@Suite("The state of a mirror")
struct MirrorStateTests {
    private let hour = Duration.seconds(3_600)
    private let error = KVStoreError(.unavailable(.server), .changes)

    private func position(_ revision: UInt64?) -> MirrorState.Position {
        MirrorState.Position(storeID: "one", revision: revision)
    }

    private func page(_ revision: UInt64?, of storeID: String = "one") -> AsyncKVEntryPage {
        AsyncKVEntryPage(entries: [], hasMore: false, revision: revision, storeID: storeID)
    }

    /// The state after a list.
    private func listed(_ revision: UInt64? = 5, asked: ContinuousClock.Instant = .now) -> MirrorState {
        var state = MirrorState(MirrorState.Position())
        _ = state.begin()
        _ = state.willList()
        state.didList(position(revision), asked: asked)
        return state
    }

    /// The state of a connection that goes on after revision 5 of a store which is at a later one.
    private func following(to present: UInt64) -> MirrorState {
        var state = listed()
        _ = state.begin()
        _ = state.canContinue(with: page(present), asked: .now)
        return state
    }

    @Test(
        "a connection continues in the same store at its revision or a later one, and lists otherwise",
        arguments: [(5, "one", true), (7, "one", true), (4, "one", false), (5, "two", false), (nil, "one", false)]
            as [(UInt64?, String, Bool)])
    func continuing(_ revision: UInt64?, _ storeID: String, _ continues: Bool) {
        var state = listed()
        state.fail(error)
        let from = state.begin()
        let isContinued = state.canContinue(with: page(revision, of: storeID), asked: .now)
        #expect(from == 5)
        #expect(isContinued == continues)
        #expect(state.phase == (continues ? .following : .awaitingList))
        let isCurrent = continues && revision == 5
        #expect(state.isCaughtUp == isCurrent)
        #expect((state.failure == nil) == isCurrent)
    }

    @Test(
        "the second stream in a row that does not deliver what the store has leads to a list",
        arguments: [(nil, true), (5, true), (6, false)] as [(UInt64?, Bool)])
    func missedChanges(_ delivered: UInt64?, _ isListed: Bool) {
        var state = following(to: 7)
        _ = state.question(patience: hour)
        #expect(state.phase == .following && state.isCaughtUp)
        _ = state.question(patience: .zero)
        #expect(state.phase == .connecting && !state.isCaughtUp && !state.needsList)
        _ = state.begin()
        // Too late for the question of the stream before.
        var late = state
        late.didReceive(1, upTo: position(7))
        #expect(!late.isCaughtUp)
        _ = state.canContinue(with: page(7), asked: .now)
        if let delivered { state.didReceive(0, upTo: position(delivered)) }
        _ = state.question(patience: .zero)
        #expect(state.phase == .connecting && state.needsList == isListed)
        let from = state.begin()
        #expect(from == (isListed ? nil : delivered))
    }

    @Test(
        "an answer tells whether the store was replaced or set back",
        arguments: [(5, "one", false), (6, "one", false), (4, "one", true), (5, "two", true), (nil, "one", true)]
            as [(UInt64?, String, Bool)])
    func answers(_ revision: UInt64?, _ storeID: String, _ isListed: Bool) async throws {
        var state = listed()
        let round = Task { try await Task.sleep(for: .seconds(3_600)) }
        state.round = round
        let asked = state.question(patience: hour)
        let question = try #require(asked)
        #expect(question.reached == 5 && state.isAsking)
        let second = state.question(patience: hour)
        #expect(second == nil)
        state.learn(page(revision, of: storeID), question)
        // A store without revisions tells nothing.
        #expect(state.isCaughtUp == (!isListed || revision == nil))
        #expect(state.needsList == isListed)
        #expect(state.phase == (isListed ? .connecting : .following))
        #expect(round.isCancelled == isListed)
        round.cancel()
        // An answer that arrives after the connection has failed.
        var failed = listed()
        failed.fail(error)
        failed.learn(page(revision, of: storeID), question)
        #expect(!failed.needsList && !failed.isCaughtUp)
    }

    @Test("a connection is examined at a time that its phase decides")
    func examination() {
        let (limit, patience) = (Duration.seconds(100), Duration.seconds(10))
        func end(_ state: MirrorState) -> ContinuousClock.Instant {
            state.examination(after: limit, patience: patience)
        }
        func expect(_ state: MirrorState, _ duration: Duration, _ line: Int = #line) {
            let start = ContinuousClock.now
            let found = end(state)
            let last = ContinuousClock.now + duration
            #expect(found >= start + duration && found <= last, "line \(line)")
        }
        var state = MirrorState(MirrorState.Position())
        expect(state, limit)
        let created = state.heardAt
        while ContinuousClock.now == created {}
        _ = state.begin()
        #expect(state.heardAt > created)
        #expect(end(state) == state.heardAt + limit)
        _ = state.willList()
        expect(state, limit)
        let asked = ContinuousClock.now - hour
        state.didList(position(5), asked: asked)
        #expect(end(state) == asked + limit)
        #expect(end(listed(nil, asked: asked)) > ContinuousClock.now)
        state.isAsking = true
        expect(state, patience)
        var behind = following(to: 7)
        // A stream that has not begun may still be connecting.
        let patient = patience * 10
        #expect(end(behind) >= behind.heardAt + patient && end(behind) <= ContinuousClock.now + patient)
        let begun = ContinuousClock.now
        while ContinuousClock.now == begun {}
        behind.didHear()
        #expect(behind.heardAt > begun && end(behind) == behind.heardAt + patience)
        #expect(listed(asked: asked).isSilent(.zero) && !listed(asked: asked).isSilent(hour))
        #expect(!listed(asked: ContinuousClock.now + hour).isSilent(.zero))
    }

    @Test("a question that fails ends a connection that has been silent since, and no other")
    func failedQuestion() {
        var state = listed()
        state.end(error, since: MirrorState.Question(asked: state.heardAt, reached: 5))
        #expect(state.phase == .following && state.isCaughtUp && state.failure == nil)
        state.end(error, since: MirrorState.Question(asked: state.heardAt + Duration.nanoseconds(1), reached: 5))
        #expect(state.phase == .connecting && !state.isCaughtUp && !state.needsList)
        #expect(state.failure?.code == .unavailable(.server))
        // What it delivers now answers no question.
        var behind = following(to: 7)
        behind.fail(error)
        behind.didReceive(1, upTo: position(7))
        #expect(!behind.isCaughtUp && behind.failure == nil)
    }

    @Test("the latest question whose answer is reached proves that the mirror is current")
    func proof() {
        let asked = ContinuousClock.now
        var state = listed(asked: asked)
        #expect(state.provenAt == asked)
        for (present, delay, proof) in [(5, -1, 0), (5, 1, 1), (8, 2, 1)] as [(UInt64, Int, Int)] {
            _ = state.begin()
            _ = state.canContinue(with: page(present), asked: asked + Duration.seconds(delay))
            #expect(state.provenAt == asked + Duration.seconds(proof))
        }
        state.didReceive(1, upTo: position(7))
        #expect(state.provenAt == asked + Duration.seconds(1))
        state.didReceive(1, upTo: position(8))
        #expect(state.provenAt == asked + Duration.seconds(2))
    }

    @Test("a connection has progressed with a change or a new position, and a later list may be delayed")
    func progress() {
        for (count, revision, hasProgressed) in [(0, 5, false), (1, 5, true), (0, 6, true)] as [(Int, UInt64, Bool)] {
            var state = following(to: 7)
            state.didReceive(count, upTo: position(revision))
            #expect(state.hasProgressed == hasProgressed)
            #expect(state.position == position(revision))
            _ = state.begin()
            #expect(!state.hasProgressed)
        }
        // A mirror that begins with a copy.
        var state = MirrorState(position(5))
        _ = state.begin()
        _ = state.canContinue(with: page(7), asked: .now)
        var (notified, answered) = (state, state)
        notified.didReceive(0, upTo: position(5))
        answered.learn(page(7), MirrorState.Question(asked: .now, reached: 5))
        for (state, isDelayed) in [(state, false), (notified, true), (answered, true), (listed(), true)] {
            var state = state
            let isFound = state.willList()
            #expect(isFound == isDelayed && state.phase == .listing)
        }
    }

    @Test("a change is accepted unless the content is newer")
    func accepted() {
        // The revisions of the value, or nil for a removal, of the change and of the present value.
        let cases: [(value: UInt64?, change: UInt64?, current: UInt64?, isAccepted: Bool)] = [
            (6, 6, nil, true), (6, 6, 5, true), (6, 6, 6, false), (6, 6, 7, false), (5, 5, nil, false),
            (6, 5, nil, true), (nil, 6, 6, true), (nil, 6, 5, true), (nil, 6, 7, false), (nil, 6, nil, false),
            (nil, 5, 5, true), (nil, 4, 4, false), (1, nil, 9, true), (nil, nil, nil, true),
        ]
        for (value, revision, current, isAccepted) in cases {
            let entry = value.map { KVEntry(bytes: [1], revision: $0) }
            let change = listed().accepted(KeyName("a"), entry, revision, over: current)
            #expect((change != nil) == isAccepted, "\(String(describing: value)) over \(String(describing: current))")
            if let change { #expect(change.name == KeyName("a") && change.entry == entry) }
        }
    }

    @Test("a position moves forward only")
    func positions() {
        for (revision, expected) in [(nil, 5), (4, 5), (6, 6)] as [(UInt64?, UInt64)] {
            #expect(listed().position(upTo: revision) == position(expected))
        }
        #expect(listed(nil).position(upTo: 3) == position(3))
    }
}
