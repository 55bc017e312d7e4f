import ForgeEtcd
import ForgeS3
import ForgeStorage
import Foundation
import Logging

/// The settings for stores on servers, from environment variables: credentials, certificates and endpoints are never
/// arguments of the command.
///
/// An empty variable counts as unset.
struct ServerEnvironment: Sendable {
    private let variables: [String: String]

    init(_ variables: [String: String] = ProcessInfo.processInfo.environment) {
        self.variables = variables
    }

    /// The value of the first of these variables that is set and not empty; nil if there is none.
    subscript(_ names: String...) -> String? {
        names.lazy.compactMap { variables[$0] }.first { !$0.isEmpty }
    }

    /// The deadline of one request with its retries; nil for the default of the store.
    ///
    /// - Throws: ``CommandFailure`` if the variable is not a number of seconds from 0.1 to 86,400.
    func deadline() throws(CommandFailure) -> Duration? {
        guard let text = self["FORGE_DEADLINE"] else { return nil }
        guard let seconds = Double(text), seconds >= 0.1, seconds <= 86_400 else {
            throw CommandFailure("FORGE_DEADLINE is not a number of seconds between 0.1 and 86400", .usage)
        }
        return .milliseconds(Int64(seconds * 1000))
    }

    /// The user and password for etcd, from the variables of `etcdctl`; nil if there is no user.
    ///
    /// - Throws: ``CommandFailure`` if there is a user without a password.
    func etcdUser() throws(CommandFailure) -> (name: String, password: String)? {
        guard let user = self["ETCDCTL_USER"] else { return nil }
        if let password = self["ETCDCTL_PASSWORD"] { return (user, password) }
        let parts = user.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2 else {
            throw CommandFailure("ETCDCTL_USER is set without a password; set ETCDCTL_PASSWORD too", .usage)
        }
        return (String(parts[0]), String(parts[1]))
    }

    /// A logger that drops all messages: the command prints each error itself.
    static let logger = Logger(label: "forge") { _ in SwiftLogNoOpLogHandler() }
}

/// A key-value store as the commands use it.
protocol CommandKVStore: AsyncKVStoring {
    /// The value of a name, and whether it ends with a lease, as another program has stored it in etcd; nil if the name is
    /// absent.
    func leasedEntry(named name: String) async throws(KVStoreError) -> (entry: KVEntry, isLeased: Bool)?
}

/// Its values have no leases.
extension LocalAsyncKVStore: CommandKVStore {
    func leasedEntry(named name: String) async throws(KVStoreError) -> (entry: KVEntry, isLeased: Bool)? {
        guard let entry = try await entry(named: name) else { return nil }
        return (entry, false)
    }
}

#if Etcd
extension EtcdKVStore: CommandKVStore {}
#endif

extension StoreURL {
    /// Opens the key-value store in etcd; it connects with the first call.
    ///
    /// - Throws: ``CommandFailure``: the status is `notBuilt` without the trait `Etcd`. `KVStoreError` if a
    ///   certificate cannot be loaded.
    func openKeyValueStore(_ environment: ServerEnvironment = ServerEnvironment()) throws -> any CommandKVStore {
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

extension StoreURL {
    /// Opens the file store in S3; it connects with the first call.
    ///
    /// - Throws: ``CommandFailure``: the status is `notBuilt` without the trait `S3`. `S3Error` if the environment
    ///   names no valid endpoint or region.
    func openFileStore(
        _ environment: ServerEnvironment = ServerEnvironment()
    ) throws -> any ServerFileStoring {
        #if S3
        var configuration = S3FileStore.Configuration(
            bucket: places[0], region: environment["AWS_REGION", "AWS_DEFAULT_REGION"] ?? "us-east-1",
            credentials: Self.credentials(environment))
        configuration.endpoint = environment["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"].map(\.withoutSlashAtEnd)
        switch environment["FORGE_S3_ADDRESSING"] {
        case nil: break
        case "path": configuration.addressing = .path
        case "host": configuration.addressing = .host
        case .some: throw CommandFailure("FORGE_S3_ADDRESSING is neither path nor host", .usage)
        }
        configuration.prefix = prefix
        configuration.trustRootsPath = environment["AWS_CA_BUNDLE"]
        if let deadline = try environment.deadline() { configuration.deadline = deadline }
        // Several files are transferred at the same time, and this number of parts of each.
        configuration.transferCount = 2
        configuration.logger = ServerEnvironment.logger
        return try S3FileStore(configuration)
        #else
        throw CommandFailure.notBuilt("stores in S3", trait: "S3")
        #endif
    }

    #if S3
    private static func credentials(_ environment: ServerEnvironment) -> S3CredentialSource {
        guard environment["AWS_EC2_METADATA_DISABLED"]?.lowercased() == "true" else { return .standard }
        return .first(of: [.environment(), .profile(), .container()])
    }
    #endif
}
