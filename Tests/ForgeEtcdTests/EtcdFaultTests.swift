#if Etcd
import EtcdServers
import ForgeEtcd
import ForgeKVStore
import Foundation
import Histories
import Testing

/// The short form of `.ci/nightly etcd-faults`: one server, whose connections are cut and which is killed.
@Suite("The store in etcd under faults", .enabled(if: EtcdServer.isInstalled))
struct EtcdFaultTests {
    private static let clientCount = 4

    /// The clients' calls while `happen` runs, then a read of every name.
    private func history(
        _ stores: [any AsyncKVStoring], _ patient: EtcdKVStore, while happen: (HistoryRecorder) async throws -> Void
    ) async throws -> HistoryRecorder {
        let recorder = HistoryRecorder()
        let workload = HistoryWorkload(recorder)
        let clients = Task { await workload.run(stores) { Task.isCancelled } }
        defer { clients.cancel() }
        try await happen(recorder)
        clients.cancel()
        await clients.value
        let found = await workload.readAll(patient, within: .seconds(30))
        #expect(found.allSatisfy { $0.value != nil })
        return recorder
    }

    private func calls(_ count: Int, _ recorder: HistoryRecorder) async throws {
        let begun = recorder.begun
        while recorder.begun < begun + count { try await Task.sleep(for: .milliseconds(5)) }
    }

    @Test("lost requests, lost answers and a kill leave the history linearizable", .timeLimit(.minutes(10)))
    func faults() async throws {
        let server = try await EtcdServer.started()
        let proxy = try FaultyProxy(to: server.port)
        var configuration = EtcdKVStore.Configuration.test(proxy.endpoint)
        configuration.deadline = .seconds(1)
        let stores = try (0..<Self.clientCount).map { _ in try EtcdKVStore(configuration) }
        configuration.endpoints = [server.endpoint]
        configuration.deadline = .seconds(20)
        let patient = try EtcdKVStore(configuration)
        let watch = WatchRecorder()
        let watching = Task { await watch.follow(patient) }
        defer { watching.cancel() }
        while !watch.hasBegun { try await Task.sleep(for: .milliseconds(5)) }
        let recorder = try await history(stores, patient) { recorder in
            for fault in [FaultyProxy.Fault.losesRequest, .losesAnswer, .losesAnswer] {
                try await calls(30, recorder)
                proxy.next(.write, fault)
            }
            try await calls(30, recorder)
            proxy.cut()
            try await calls(30, recorder)
            try await server.restart()
            try await calls(60, recorder)
        }
        let report = HistoryChecker().check(recorder.operations)
        #expect(report.isLinearizable, "\((report.violations + report.undecided).joined(separator: "\n"))")
        #expect(recorder.counts.unknown > 0)
        #expect(recorder.counts.answered > 150)
        try await WatchRecorder.setMark(1, patient)
        while !watch.hasSeen(mark: 1) { try await Task.sleep(for: .milliseconds(5)) }
        var checker = WatchChecker(recorder.operations)
        checker.check([watch.events])
        #expect(checker.violations.isEmpty)
        for (name, entry) in watch.content {
            let found = try await patient.versioned(KVKey<Int>(name))
            #expect(found.map { .value($0.value, revision: $0.revision) } == entry, "\(name)")
        }
    }

    @Test(
        "a planted defect between the clients and the server is found", .timeLimit(.minutes(10)),
        arguments: [DefectiveStore.Defect.oldReads, .repeatedWrites, .lostWrites])
    func planted(_ defect: DefectiveStore.Defect) async throws {
        let store = try EtcdKVStore(.test(try await EtcdServer.shared().endpoint))
        let clients = (0..<Self.clientCount).map { _ in DefectiveStore(store, defect) }
        let recorder = try await history(clients, store) { recorder in try await calls(400, recorder) }
        let report = HistoryChecker().check(recorder.operations)
        #expect(!report.violations.isEmpty)
        #expect(report.undecided.isEmpty)
    }
}
#endif
