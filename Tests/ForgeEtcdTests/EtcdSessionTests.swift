#if Etcd
import ForgeFileSystem
import EtcdServers
import ForgeEtcd
import ForgeKVStore
import ForgeStorage
import ForgeStorageTesting
import Testing

@Suite("A session in etcd", .enabled(if: EtcdServer.isInstalled))
struct EtcdSessionTests {
    @Test("conforms, and ends after its lifetime", arguments: ConformanceChecks.asyncSessionStorage)
    func conforms(_ check: ConformanceCheck<AsyncSessionStorageUnderTest>) async throws {
        let configuration = EtcdKVStore.Configuration.test(try await EtcdServer.shared().endpoint)
        let (store, other) = (try EtcdKVStore(configuration), try EtcdKVStore(configuration))
        let tolerance = try #require(try await store.capabilities().expiry)
        let storages = [store, other].map {
            AsyncKVSessionStorage<ConformanceUser>(store: $0, key: "session", lifetime: .seconds(15))
        }
        try await check.run(
            on: AsyncSessionStorageUnderTest(
                storages[0], other: storages[1], lifetime: .seconds(15), tolerance: tolerance))
        await store.close()
        await other.close()
    }

    @Test("a cluster that is gone is an error of each call, and the session is kept")
    func errors() async throws {
        let server = try await EtcdServer.started()
        let store = try EtcdKVStore(.test(server.endpoint, deadline: .seconds(1)))
        let session = AsyncKVSessionStorage<Int>(store: store, key: "session", lifetime: .seconds(60))
        try await session.saveUser(1)
        try await server.stop()
        for call in [
            { try await session.saveUser(2) }, { try await session.clearUser() }, { _ = try await session.loadUser() },
        ] {
            let error = await #expect(throws: SessionStorageError.self) { try await call() }
            switch try #require(error) {
            case .cantSave(let cause as KVStoreError), .cantClear(let cause as KVStoreError),
                .unavailable(let cause as KVStoreError):
                #expect(cause.code == .unavailable(.server) || cause.code == .timeout, "\(cause)")
                #expect(cause.endpoint == server.endpoint || cause.endpoint == nil)
            default: Issue.record("\(String(describing: error))")
            }
        }
        try await server.start()
        #expect(try await session.loadUser() == 1)
        await store.close()
    }
}
#endif
