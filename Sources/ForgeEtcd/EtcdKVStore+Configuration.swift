#if Etcd
public import Logging

extension EtcdKVStore {
    /// The servers and limits of a store.
    public struct Configuration: Sendable {
        /// Which writes a read sees.
        public enum Reads: Hashable, Sendable {
            /// All that were acknowledged, by any client: a majority of the cluster confirms the read.
            case linearizable

            /// Those that the asked server knows; faster, and available without a majority.
            case serializable
        }

        /// Certificates in PEM files. A client certificate secures the connection; it does not log in.
        public struct TLS: Hashable, Sendable {
            /// The path of the trusted certificates; nil for those of the system.
            public var trustRootsPath: String?

            /// The path of the client's certificate chain; nil for none.
            public var certificatePath: String?

            /// The path of the client's private key; nil for none.
            public var privateKeyPath: String?

            /// Creates settings for `https` endpoints.
            public init(
                trustRootsPath: String? = nil, certificatePath: String? = nil, privateKeyPath: String? = nil
            ) {
                self.trustRootsPath = trustRootsPath
                self.certificatePath = certificatePath
                self.privateKeyPath = privateKeyPath
            }
        }

        /// A user with a password, who logs in through the JSON gateway.
        public struct Credentials: Sendable {
            let user: String
            let password: String

            /// Creates credentials.
            public init(user: String, password: String) {
                self.user = user
                self.password = password
            }
        }

        /// The servers of one cluster, as `http://host:port` or `https://host:port`. A call that may be repeated goes
        /// on to the next one after a failure.
        public var endpoints: [String]

        /// The prefix of every name in etcd. If it is empty, the empty name is `.invalidKey`.
        public var prefix = "forge/"

        /// The certificates for `https` endpoints.
        public var tls = TLS()

        /// The user; nil to use the cluster without logging in.
        public var credentials: Credentials?

        /// The time for one call with all its attempts. After a lost answer, a write that requires revisions takes up
        /// to twice as long again for each of them, to read what came of it.
        public var deadline = Duration.seconds(5)

        /// Which writes a read sees.
        public var reads = Reads.linearizable

        /// The maximum number of operations in a transaction, as the servers' `--max-txn-ops`.
        public var maximumBatchSize = 128

        /// The maximum size of a request, as the servers' `--max-request-bytes`.
        public var maximumRequestSizeInBytes = 1_500_000

        /// The logger: attempts that are repeated at `debug`, lost leases and interrupted watches at `notice`.
        public var logger = Logger(label: "ForgeStorage.Etcd")

        /// Creates a configuration.
        public init(endpoints: [String]) {
            self.endpoints = endpoints
        }
    }
}

extension EtcdKVStore.Configuration.Credentials: CustomStringConvertible, CustomReflectable {
    /// The user, without the password.
    public var description: String { "user \(user)" }

    public var customMirror: Mirror { Mirror(self, children: ["user": user]) }
}
#endif
