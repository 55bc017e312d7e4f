import EtcdServers
import ForgeEtcd
import ForgeKVStore
import Foundation
import Histories
import ServerTestSupport
import Synchronization

/// One fault while clients call a cluster and watches follow it, and the check of what they saw.
struct FaultRun: Sendable {
    /// A defect that the check must find.
    enum Plant: String, CaseIterable, Sendable {
        /// A client reads what an isolated member knows.
        case staleMember = "reads of an isolated member"

        case oldReads = "old reads"
        case repeatedWrites = "repeated writes"
        case lostWrites = "lost writes"
    }

    private static let clientCount = 8

    let fault: Fault
    let cluster: EtcdCluster
    let number: Int

    /// The minimum number of calls.
    let calls: Int

    let plant: Plant?

    private let prefix = "run-\(UUID().uuidString)/"

    init(_ fault: Fault, _ cluster: EtcdCluster, number: Int, calls: Int, plant: Plant? = nil) {
        self.fault = fault
        self.cluster = cluster
        self.number = number
        self.calls = calls
        self.plant = plant
    }

    func run() async throws -> FaultTally {
        let recorder = HistoryRecorder()
        let workload = HistoryWorkload(recorder)
        let patient = try store(from: 0, deadline: .seconds(20))
        // The cluster serves again after the run before.
        _ = try await patient.entry(named: "begin")
        let stores = try (0..<Self.clientCount).map { try client($0) }
        let watches = (0..<EtcdCluster.size).map { _ in WatchRecorder() }
        let isOver = Flag()
        var tally = FaultTally()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, watch) in watches.enumerated() {
                let store = try store(from: index, deadline: .seconds(2))
                group.addTask { await watch.follow(store) }
            }
            try await wait(.seconds(30), "a watch does not begin") { watches.allSatisfy(\.hasBegun) }
            async let happened = happen(recorder, isOver)
            await workload.run(stores) { isOver.isSet && recorder.begun >= calls }
            tally.note(try await happened)
            let found = await workload.readAll(patient, within: .seconds(60))
            for (name, observation) in found where observation == nil {
                tally.undecided.append("\(name) could not be read at the end")
            }
            tally.violations += try await mismatches(watches, patient, workload)
            group.cancelAll()
        }
        let history = recorder.operations
        tally.add(recorder.counts)
        tally.add(try await onThread { HistoryChecker().check(history) })
        if plant == nil { tally.add(watches, of: history) }
        try await tally.violations += resumptions(watches[0], patient)
        await patient.close()
        return tally
    }

    /// Lets some calls pass before the fault.
    private func happen(_ recorder: HistoryRecorder, _ isOver: Flag) async throws -> String {
        defer { isOver.set() }
        try await wait(.seconds(60), "the clients do not begin") { recorder.begun > calls / 10 }
        if plant == .staleMember {
            try await cluster.isolate(Self.staleMember)
            defer { cluster.join() }
            try await Task.sleep(for: .seconds(2))
            return "planted"
        }
        return try await fault.happen(to: cluster, run: number)
    }

    private static let staleMember = 1

    private func client(_ index: Int) throws -> any AsyncKVStoring {
        let base = try store(from: index, deadline: .seconds(1))
        switch plant {
        case nil: return base
        case .oldReads: return DefectiveStore(base, .oldReads)
        case .repeatedWrites: return DefectiveStore(base, .repeatedWrites)
        case .lostWrites: return DefectiveStore(base, .lostWrites)
        case .staleMember:
            guard index == 0 else { return base }
            var configuration = EtcdKVStore.Configuration(endpoints: [cluster.endpoints[Self.staleMember]])
            configuration.prefix = prefix
            configuration.reads = .serializable
            return DefectiveStore(base, .readsFrom(try EtcdKVStore(configuration)))
        }
    }

    private func store(from member: Int, deadline: Duration) throws -> EtcdKVStore {
        var configuration = EtcdKVStore.Configuration(endpoints: cluster.endpoints(from: member))
        configuration.prefix = prefix
        configuration.deadline = deadline
        return try EtcdKVStore(configuration)
    }

    /// Compares what each watch has collected with what the store has. A write whose outcome is unknown may take
    /// effect in between, so a difference must show three times.
    private func mismatches(
        _ watches: [WatchRecorder], _ store: EtcdKVStore, _ workload: HistoryWorkload
    ) async throws -> [String] {
        var mismatches: [String] = []
        for mark in 1...3 {
            let content = await workload.readAll(store, within: .seconds(60))
            do {
                try await setMark(mark, store)
                try await wait(.seconds(30), "") { watches.allSatisfy { $0.hasSeen(mark: mark) } }
            } catch is Waited {
                return ["a watch does not end"]
            }
            let present = content.compactMapValues(\.self).filter { $0.value != .absent }
            mismatches = watches.enumerated().flatMap { index, watch in
                let seen = watch.content
                return Set(seen.keys).union(present.keys).filter { seen[$0] != present[$0] }.map { name in
                    "watch \(index) ends with \(name)=\(seen[name]?.description ?? "nil"), "
                        + "the store has \(present[name]?.description ?? "nil")"
                }
            }
            if mismatches.isEmpty { return [] }
        }
        return mismatches
    }

    /// Repeated without an answer: an equal mark changes nothing.
    private func setMark(_ mark: Int, _ store: EtcdKVStore) async throws {
        let end = ContinuousClock.now + .seconds(60)
        while true {
            do {
                return try await WatchRecorder.setMark(mark, store)
            } catch {
                guard ContinuousClock.now < end else { throw Waited(what: "the mark cannot be written") }
            }
        }
    }

    /// A watch from a revision in the middle repeats what follows, or begins with a resync if the store says that it
    /// does not replay changes.
    private func resumptions(_ watch: WatchRecorder, _ store: EtcdKVStore) async throws -> [String] {
        let events = watch.events.split(separator: .resync).last.map(Array.init) ?? []
        guard case .changed(_, _, let revision?)? = events.dropFirst(events.count / 2).first else { return [] }
        let following = events.drop { event in
            guard case .changed(_, _, let reported?) = event else { return true }
            return reported <= revision
        }
        guard try await store.capabilities().changes == .replayable else {
            var iterator = store.changes(prefix: "", from: revision).makeAsyncIterator()
            let first = try await iterator.next()
            return first == .resync ? [] : ["a watch from \(revision) does not begin with a resync"]
        }
        let again = WatchRecorder()
        let task = Task { await again.follow(store, from: revision) }
        defer { task.cancel() }
        do {
            try await wait(.seconds(30), "") { again.events.count >= following.count }
        } catch is Waited {
            return ["a watch from \(revision) does not repeat \(following.count) changes"]
        }
        return again.events.prefix(following.count).elementsEqual(following)
            ? [] : ["a watch from \(revision) repeats other changes"]
    }

    private final class Flag: Sendable {
        private let value = Atomic(false)

        var isSet: Bool { value.load(ordering: .relaxed) }

        func set() { value.store(true, ordering: .relaxed) }
    }

    struct Waited: Error {
        var what: String
    }

    private func wait(_ limit: Duration, _ what: String, until isTrue: () -> Bool) async throws {
        let end = ContinuousClock.now + limit
        while !isTrue() {
            guard ContinuousClock.now < end else { throw Waited(what: what) }
            try await Task.sleep(for: .milliseconds(10))
        }
    }
}
