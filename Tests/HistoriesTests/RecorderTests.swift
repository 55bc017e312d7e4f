import ForgeFileSystem
import ForgeKVStore
import Histories
import Synchronization
import Testing

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

    func capabilities() async throws(KVStoreError) -> AsyncKVCapabilities { base.capabilities() }

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
