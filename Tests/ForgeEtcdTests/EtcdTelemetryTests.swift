#if Etcd
import EtcdServers
import ForgeEtcd
import ForgeKVStore
import Metrics
import MetricsTestKit
import ServerTestSupport
import Testing

@Suite("Metrics of the store in etcd", .enabled(if: EtcdServer.isInstalled))
struct EtcdTelemetryTests {
    @Test("the duration of a call is recorded with its operation, and the reason of a failure")
    func durations() async throws {
        let metrics = SharedMetrics.metrics
        let store = try EtcdKVStore(.test(try await EtcdServer.shared().endpoint))
        try await store.set(KVKey<Int>("a"), value: 1)
        let common = [("db.system.name", "etcd"), ("db.operation.name", "batch")]
        let name = "db.client.operation.duration"
        #expect(try metrics.expectTimer(name, common).values.isEmpty == false)

        var configuration = EtcdKVStore.Configuration(endpoints: ["http://127.0.0.1:\(try LoopbackSocket.freePort())"])
        // Enough time for a refused connection on a busy machine.
        configuration.deadline = .seconds(2)
        await #expect(throws: KVStoreError.self) {
            try await EtcdKVStore(configuration).set(KVKey<Int>("a"), value: 1)
        }
        let failed = common + [("error.type", "unavailable: server error")]
        #expect(try metrics.expectTimer(name, failed).values.isEmpty == false)
    }
}
#endif
