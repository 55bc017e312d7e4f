#if Etcd
import EtcdServers
import ForgeEtcd
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Testing

@Suite("The store in etcd conforms", .enabled(if: EtcdServer.isInstalled))
struct EtcdConformanceTests {
    @Test(arguments: ConformanceChecks.asyncKeyValueStore)
    func conforms(_ check: ConformanceCheck<AsyncKVStoreUnderTest>) async throws {
        let isRestarted = check.description.hasPrefix("acknowledged writes")
        let server = isRestarted ? try await EtcdServer.started() : try await EtcdServer.shared()
        let configuration = EtcdKVStore.Configuration.test(server.endpoint)
        let (store, other) = (try EtcdKVStore(configuration), try EtcdKVStore(configuration))
        try await check.run(
            on: AsyncKVStoreUnderTest(
                store, other: other, pass: { try await Task.sleep(for: $0) },
                reopen: {
                    try await server.restart()
                    return try EtcdKVStore(configuration)
                }))
        await store.close()
        await other.close()
    }

    @Test("a stale store conforms", arguments: ConformanceChecks.asyncKeyValueStore.filter { !$0.needsTime })
    func stale(_ check: ConformanceCheck<AsyncKVStoreUnderTest>) async throws {
        var configuration = EtcdKVStore.Configuration.test(try await EtcdServer.shared().endpoint)
        configuration.reads = .serializable
        let store = try EtcdKVStore(configuration)
        try await check.run(on: AsyncKVStoreUnderTest(store, other: store, pass: { _ in }))
    }

    @Test("the capabilities are those of the server and the configuration")
    func capabilities() async throws {
        var configuration = EtcdKVStore.Configuration.test(try await EtcdServer.shared().endpoint)
        configuration.reads = .serializable
        configuration.maximumBatchSize = 7
        let capabilities = try await EtcdKVStore(configuration).capabilities()
        #expect(capabilities.readConsistency == .stale)
        #expect(capabilities.maximumBatchSize == 7)
        #expect(capabilities.durability == .powerCut)
    }
}

extension ConformanceCheck {
    /// Whether the check waits or restarts the server.
    fileprivate var needsTime: Bool {
        [
            "a value becomes absent", "acknowledged writes", "every value that a batch sets has its time to live",
            "after its time to live",
        ]
        .contains(where: description.hasPrefix)
    }
}

extension EtcdKVStore.Configuration {
    /// A configuration with a prefix of its own.
    static func test(_ endpoints: String..., deadline: Duration? = nil) -> Self {
        var configuration = Self(endpoints: endpoints)
        if let deadline { configuration.deadline = deadline }
        configuration.prefix = "test-\(UUID().uuidString)/"
        return configuration
    }
}
#endif
