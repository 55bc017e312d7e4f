import ForgeEtcd
import ForgeStorage

extension StoreURL {
    /// Opens the key-value store in etcd; it connects with the first call.
    ///
    /// - Throws: ``CommandFailure``: the status is `notBuilt` without the trait `Etcd`. `AsyncKVStoreError` if a
    ///   certificate cannot be loaded.
    func openKeyValueStore(_ environment: ServerEnvironment = ServerEnvironment()) throws -> any AsyncKVStoring {
        #if Etcd
        let protocolName = scheme == .etcds ? "https" : "http"
        var configuration = EtcdKVStore.Configuration(endpoints: places.map { "\(protocolName)://\($0)" })
        configuration.prefix = prefix
        configuration.tls = EtcdKVStore.Configuration.TLS(
            trustRootsPath: environment["ETCDCTL_CACERT"], certificatePath: environment["ETCDCTL_CERT"],
            privateKeyPath: environment["ETCDCTL_KEY"])
        configuration.credentials = try environment.etcdUser().map {
            EtcdKVStore.Configuration.Credentials(user: $0.name, password: $0.password)
        }
        if let deadline = try environment.deadline() { configuration.deadline = deadline }
        configuration.logger = ServerEnvironment.logger
        return try EtcdKVStore(configuration)
        #else
        throw CommandFailure.notBuilt("stores in etcd", trait: "Etcd")
        #endif
    }
}
