#if Etcd
import EtcdServers
import ForgeEtcd
import ForgeFileSystem
import ForgeKVStore
import Foundation
import Histories
import ServerTestSupport
import Testing

@Suite("The outcome of calls to etcd", .enabled(if: EtcdServer.isInstalled))
struct EtcdOutcomeTests {
    private let key = KVKey<Int>("a")
    private let proxy: FaultyProxy
    private let configuration: EtcdKVStore.Configuration

    /// A store behind the proxy, and one that reaches the server.
    private let store: EtcdKVStore
    private let direct: EtcdKVStore

    init() async throws {
        let server = try await EtcdServer.shared()
        proxy = try FaultyProxy(to: server.port)
        var configuration = EtcdKVStore.Configuration.test(proxy.endpoint)
        // Enough time for a second attempt on a busy machine.
        configuration.deadline = .seconds(20)
        self.configuration = configuration
        store = try EtcdKVStore(configuration)
        configuration.endpoints = [server.endpoint]
        direct = try EtcdKVStore(configuration)
    }

    private var writeCount: Int { proxy.count(of: .write) }

    @Test(
        "a write whose request or answer is lost is unknown, and not repeated",
        arguments: [(FaultyProxy.Fault.losesRequest, false), (.losesAnswer, true)])
    func lostWrite(_ fault: FaultyProxy.Fault, _ isApplied: Bool) async throws {
        let calls: [@Sendable () async throws -> Void] = [
            { try await store.set(key, value: 1) },
            { try await store.createIfAbsent(KVKey<Int>("b"), value: 1) },
            { try await store.remove(KVKey<Int>("c")) },
        ]
        try await direct.set(KVKey<Int>("c"), value: 1)
        for (index, call) in calls.enumerated() {
            proxy.next(.write, fault)
            let error = await #expect(throws: KVStoreError.self) { try await call() }
            #expect(error?.code == .unknownOutcome)
            #expect(error?.endpoint == proxy.endpoint)
            #expect(error?.requestID?.isEmpty == false)
            #expect(writeCount == index + 1)
        }
        #expect(try await direct.contains(key) == isApplied)
        #expect(try await direct.contains(KVKey<Int>("b")) == isApplied)
        #expect(try await direct.contains(KVKey<Int>("c")) != isApplied)
    }

    @Test("a lost conditional write is a conflict if reading proves that another value came first")
    func provenConflict() async throws {
        try await direct.set(key, value: 1)
        let revision = try await direct.entry(named: "a")?.revision
        try await direct.set(key, value: 2)
        proxy.next(.write, .losesAnswer)
        #expect(try await store.compareAndSet(key, revision: revision, value: 3) == false)
        #expect(writeCount == 1)
    }

    @Test("a lost conditional write is unknown if another client may have stored the equal value")
    func equalValue() async throws {
        try await direct.set(key, value: 1)
        let revision = try await direct.entry(named: "a")?.revision
        try await direct.set(key, value: 2)
        proxy.next(.write, .losesAnswer)
        let error = await #expect(throws: KVStoreError.self) {
            try await store.compareAndSet(key, revision: revision, value: 2)
        }
        #expect(error?.code == .unknownOutcome)
    }

    @Test("a read is repeated", arguments: [FaultyProxy.Fault.losesRequest, .losesAnswer])
    func repeatedRead(_ fault: FaultyProxy.Fault) async throws {
        try await direct.set(key, value: 7)
        proxy.next(.read, fault)
        #expect(try await store.read(key) == 7)
        #expect(proxy.count(of: .read) == 2)
    }

    @Test("a server that does not answer: reads time out, writes are unknown")
    func deadlines() async throws {
        var configuration = configuration
        configuration.deadline = .seconds(1)
        let store = try EtcdKVStore(configuration)
        let codes: [(FaultyProxy.Request, KVStoreError.Code)] = [(.read, .timeout), (.write, .unknownOutcome)]
        for (request, code) in codes {
            proxy.next(request, .hangs)
            let start = ContinuousClock.now
            let error = await #expect(throws: KVStoreError.self) {
                if code == .timeout { _ = try await store.read(key) } else { try await store.set(key, value: 1) }
            }
            #expect(error?.code == code)
            #expect(ContinuousClock.now - start < .seconds(10))
        }
    }

    @Test("cancelling a call frees its request")
    func cancellation() async throws {
        let codes: [(FaultyProxy.Request, KVStoreError.Code)] = [(.read, .cancelled), (.write, .unknownOutcome)]
        for (request, code) in codes {
            proxy.next(request, .hangs)
            let count = proxy.requests.count
            let task = Task {
                if code == .cancelled { _ = try await store.read(key) } else { try await store.set(key, value: 1) }
            }
            try await until { proxy.requests.count > count }
            task.cancel()
            let error = await #expect(throws: KVStoreError.self) { try await task.value }
            #expect(error?.code == code)
            try await until { proxy.connectionCount == 0 }
        }
    }

    @Test("a call goes on to an endpoint that answers, and writes that were not sent do, too")
    func failover() async throws {
        var configuration = configuration
        configuration.deadline = .seconds(10)
        configuration.endpoints.insert("http://127.0.0.1:\(try LoopbackSocket.freePort())", at: 0)
        let store = try EtcdKVStore(configuration)
        try await store.set(key, value: 1)
        #expect(try await store.read(key) == 1)
    }

    @Test("without a server nothing was changed, and the endpoint is named")
    func noServer() async throws {
        var configuration = configuration
        configuration.endpoints = ["http://127.0.0.1:\(try LoopbackSocket.freePort())"]
        // Enough time for a refused connection on a busy machine.
        configuration.deadline = .seconds(2)
        let store = try EtcdKVStore(configuration)
        for call in [{ try await store.set(key, value: 1) }, { _ = try await store.read(key) }] {
            let error = await #expect(throws: KVStoreError.self) { try await call() }
            #expect(error?.code == .unavailable(.server))
            #expect(error?.endpoint == configuration.endpoints[0])
        }
    }

    @Test("what exceeds a limit is not sent")
    func limits() async throws {
        var configuration = configuration
        configuration.maximumRequestSizeInBytes = 1000
        let store = try EtcdKVStore(configuration)
        let error = await #expect(throws: KVStoreError.self) {
            try await store.set(KVKey<String>("a"), value: String(repeating: "x", count: 1000))
        }
        #expect(error?.code == .tooLarge)
        let many = await #expect(throws: KVStoreError.self) {
            try await store.batch { batch in for name in 0...128 { try batch.set(KVKey<Int>("\(name)"), value: 1) } }
        }
        #expect(many?.code == .tooLarge)
        #expect(proxy.requests.isEmpty)
    }

    @Test("an error shows no value")
    func values() async throws {
        proxy.next(.write, .losesAnswer)
        let error = await #expect(throws: KVStoreError.self) {
            try await store.set(KVKey<String>("a"), value: "hidden-7")
        }
        #expect(error.map { "\($0)".contains("hidden-7") } == false)
        try await direct.set(KVKey<String>("b"), value: "hidden-7")
        let wrong = await #expect(throws: KVStoreError.self) { try await store.read(KVKey<Int>("b")) }
        #expect(wrong?.code == .undecodable)
        #expect(wrong.map { "\($0)".contains("hidden-7") } == false)
    }
}

/// Waits until a condition holds.
func until(_ condition: () throws -> Bool) async throws {
    let end = ContinuousClock.now + .seconds(60)
    while try !condition() {
        try #require(ContinuousClock.now < end, "waited in vain")
        try await Task.sleep(for: .milliseconds(5))
    }
}

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
