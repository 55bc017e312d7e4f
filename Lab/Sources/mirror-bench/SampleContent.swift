import EtcdServers
import ForgeEtcd
import ForgeKVStore
import Foundation

/// The values of a measurement.
struct SampleContent: Sendable {
    let count: Int
    static let prefix = "mirror-bench/"

    func name(_ index: Int) -> String { String(format: "session/%08d", index) }

    func value(_ index: Int) -> String { String(repeating: "v", count: 90) + String(format: "%010d", index) }

    func key(_ index: Int) -> KVKey<String> { KVKey(name(index)) }

    /// The size of a name and its encoded value.
    var sizePerKey: Int {
        get throws {
            let store = InMemoryKVStore()
            try store.set(key(0), value: value(0))
            return try name(0).utf8.count + (store.rawValue(named: name(0))?.count ?? 0)
        }
    }

    func configuration(_ server: EtcdServer) -> EtcdKVStore.Configuration {
        var configuration = EtcdKVStore.Configuration(endpoints: [server.endpoint])
        configuration.prefix = Self.prefix
        configuration.deadline = .seconds(60)
        return configuration
    }

    /// Stores the values.
    func fill(_ store: EtcdKVStore) async throws {
        for start in stride(from: 0, to: count, by: 100) {
            var batch = KVBatch()
            for index in start..<min(start + 100, count) { try batch.set(key(index), value: value(index)) }
            try await store.commit(batch, timeToLive: nil)
        }
        await store.close()
    }

    /// Stores the values.
    func fill(_ store: FileKVStore) throws {
        for index in 0..<count { try store.set(key(index), value: value(index)) }
    }
}
