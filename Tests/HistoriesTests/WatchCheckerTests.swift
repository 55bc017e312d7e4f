import ForgeFileSystem
import ForgeKVStore
import Histories
import Synchronization
import Testing

@Suite("The checker of watches")
struct WatchCheckerTests {
    private typealias Event = WatchRecorder.Event

    private func changed(_ name: String, _ value: Int, _ revision: UInt64) -> Event {
        .changed(name: name, entry: .value(value, revision: revision), revision: revision)
    }

    /// Three writes, a batch of two names between them, and reads that show the revisions.
    private let history: [HistoryOperation] = [
        HistoryOperation(.set, from: 0, to: 1, written: ["a": 1]),
        HistoryOperation(.batch, from: 2, to: 3, written: ["a": 2, "b": 3]),
        HistoryOperation(.set, from: 4, to: 5, written: ["c": 4]),
        HistoryOperation(.read, from: 6, to: 7, observed: ["b": .value(3, revision: 12)]),
    ]

    private func violations(_ watches: [Event]...) -> [String] {
        var checker = WatchChecker(history)
        checker.check(watches)
        return checker.violations
    }

    private var whole: [Event] {
        [.resync, changed("a", 1, 11), changed("a", 2, 12), changed("b", 3, 12), changed("c", 4, 13)]
    }

    @Test("a watch that shows every change in order keeps the guarantees, also with a resync between")
    func sound() {
        #expect(violations(whole, [.resync, changed("a", 1, 11), .resync, changed("c", 4, 13)]).isEmpty)
    }

    @Test("a change that comes late, twice, never, alone or with another value is found")
    func defects() {
        let late = [.resync, whole[2], whole[3], whole[1], whole[4]]
        let twice = whole + [whole[4]]
        let missing = [.resync, whole[1], whole[4]]
        let alone = [.resync, whole[1], whole[3], whole[4]]
        let other = [.resync, changed("a", 7, 11)]
        let otherRevision = [.resync, whole[1], changed("b", 3, 14)]
        let apart = [.resync, whole[1], whole[2], whole[4], whole[3]]
        for (name, events) in [
            ("late", late), ("twice", twice), ("missing", missing), ("alone", alone), ("other", other),
            ("other revision", otherRevision), ("apart", apart),
        ] { #expect(!violations(events).isEmpty, "\(name)") }
    }

    @Test("a change that another watch has seen is missed")
    func otherWatch() {
        #expect(violations([.resync, whole[1], whole[2], whole[3]], [.resync, whole[4]]).isEmpty)
        let gap: [Event] = [.resync, changed("a", 1, 11), changed("c", 4, 13)]
        #expect(!violations(whole, gap).isEmpty)
    }

    @Test("a position that goes back is found")
    func position() {
        let removed = { (revision: UInt64) in Event.changed(name: "d", entry: .absent, revision: revision) }
        #expect(violations([.resync, removed(20), removed(21)]).isEmpty)
        #expect(!violations([.resync, removed(21), removed(20)]).isEmpty)
        #expect(!violations([.resync, removed(21), removed(21)]).isEmpty)
    }

    @Test("a revision that goes back is found, also if the position does not")
    func order() {
        let inside = Event.changed(name: "b", entry: .value(3, revision: 12), revision: 11)
        #expect(violations([.resync, inside, changed("a", 1, 11)]).contains { $0.contains("from revision 12 to 11") })
    }

    @Test("a recorder of a watch ends with the content of the store", .timeLimit(.minutes(10)))
    func recorder() async throws {
        let store = LocalAsyncKVStore(InMemoryKVStore())
        let watch = WatchRecorder()
        let task = Task { await watch.follow(store) }
        defer { task.cancel() }
        while !watch.hasBegun { await Task.yield() }
        for value in 1...20 {
            try await store.set(KVKey<Int>("k\(value % 3)"), value: value)
        }
        try await store.remove(KVKey<Int>("k1"))
        try await WatchRecorder.setMark(1, store)
        while !watch.hasSeen(mark: 1) { await Task.yield() }
        var expected: [String: HistoryObservation] = [:]
        for name in try await store.keys(prefix: "k") {
            expected[name] = try await store.versioned(KVKey<Int>(name)).map { .value($0.value, revision: $0.revision) }
        }
        #expect(watch.content == expected)
        #expect(watch.failures == 0)
    }
}

@Suite("The recorder of histories")
struct RecorderTests {
    /// The report of concurrent clients of a local store.
    private func report(
        _ calls: Int, _ store: (any AsyncKVStoring) -> any AsyncKVStoring
    ) async -> (HistoryChecker.Report, HistoryRecorder) {
        let recorder = HistoryRecorder()
        let workload = HistoryWorkload(recorder)
        let base = LocalAsyncKVStore(InMemoryKVStore())
        let stores = (0..<6).map { _ in store(base) }
        await workload.run(stores) { recorder.begun >= calls }
        _ = await workload.readAll(base, within: .seconds(10))
        return (HistoryChecker().check(recorder.operations), recorder)
    }

    @Test("concurrent clients of a local store have a linearizable history with every kind of call")
    func local() async {
        let (report, recorder) = await report(1500) { $0 }
        #expect(report.isLinearizable, "\(report.violations + report.undecided)")
        #expect(Set(recorder.operations.map(\.kind)) == Set(HistoryOperation.Kind.allCases))
        #expect(recorder.operations.contains { $0.outcome == .conflict })
        #expect(recorder.counts.failed == 0)
        #expect(report.partitions >= 30)
    }

    @Test(
        "a planted defect of a store is found",
        arguments: [DefectiveStore.Defect.oldReads, .repeatedWrites, .lostWrites])
    func defects(_ defect: DefectiveStore.Defect) async {
        let (report, _) = await report(1500) { DefectiveStore($0, defect) }
        #expect(!report.violations.isEmpty)
        #expect(report.undecided.isEmpty)
    }

    @Test("only writes without an answer stay open; writes that failed are no part of the history")
    func outcomes() async {
        for (code, outcome) in [
            (KVStoreError.Code.unknownOutcome, HistoryOperation.Outcome?.some(.unknown)), (.unavailable(.server), nil),
            (.timeout, nil), (.durabilityUnknown, .done), (.conflict, .conflict),
        ] {
            let recorder = HistoryRecorder()
            let store = RecordedStore(FailingStore(code: code), recorder)
            #expect(await store.batch(setting: ["a"], removing: ["b"], requiring: [:]) == outcome)
            #expect(recorder.operations.map(\.outcome) == (outcome.map { [$0] } ?? []))
            #expect(recorder.counts.failed == (outcome == nil ? 1 : 0))
            #expect(recorder.counts.unknown == (outcome == .unknown ? 1 : 0))
        }
    }
}

/// A store whose writes fail.
private struct FailingStore: AsyncKVStoring {
    let code: KVStoreError.Code

    private let base = LocalAsyncKVStore(InMemoryKVStore())

    init(code: KVStoreError.Code) {
        self.code = code
    }

    func capabilities() async throws(KVStoreError) -> AsyncKVCapabilities { await base.capabilities() }

    func entry(named name: String) async throws(KVStoreError) -> KVEntry? { try await base.entry(named: name) }

    func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        try await base.keys(prefix: prefix, after: after, limit: limit)
    }

    func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        throw KVStoreError(code, .batch)
    }

    func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        base.changes(prefix: prefix, from: revision)
    }
}
