#if S3
import Foundation
public import Logging

extension S3FileStore {
    /// The bucket and limits of a store.
    public struct Configuration: Sendable {
        /// The place of the bucket's name in the URL of a request.
        public enum Addressing: Hashable, Sendable {
            /// In the name of the host, as AWS requires it for new buckets: `https://bucket.host/key`.
            case host

            /// In the path, as servers without names of their own need it: `https://host/bucket/key`.
            case path
        }

        /// The name of the bucket, which must exist.
        public var bucket: String

        /// The region, which is part of every signature.
        public var region: String

        /// The server as `https://host` or `http://host:port`, without a path; nil for that of AWS in the region.
        public var endpoint: String?

        /// The place of the bucket's name in URLs: by default the host name at AWS, the path elsewhere.
        public var addressing: Addressing?

        /// The beginning of every key in the bucket, empty or with a slash at its end, such as `app/`. A key of the
        /// store is shorter by as much: S3 limits both together to 1,024 bytes.
        public var prefix = ""

        /// Where the credentials come from.
        public var credentials: S3CredentialSource

        /// The path of trusted certificates in PEM form; nil for those of the system.
        public var trustRootsPath: String?

        /// The time for one request with all its attempts. A file in parts takes one for each part.
        ///
        /// An attempt gets a third of it, its answer included.
        public var deadline = Duration.seconds(60)

        /// The size of the parts in which larger files are transferred; at least 5 MiB at AWS. A file has at most
        /// 10,000: the parts of a larger one are larger.
        public var partSizeInBytes = 8 << 20

        /// The number of parts that one transfer sends or receives at the same time. A transfer needs as many parts of
        /// memory, and one more.
        public var transferCount = 4

        /// The maximum size of a file that `load` loads into memory.
        public var maximumLoadSizeInBytes = Int.max

        /// Whether a save looks for files at the parents of its key and for files below the key, as the rules of keys
        /// need. It costs a request for each parent and one for the key, at the same time. Without it, a key may
        /// become both a file and a directory.
        public var checksHierarchy = true

        /// The logger: attempts that are repeated at `debug`, corrections of the clock at `notice`.
        public var logger = Logger(label: "ForgeStorage.S3")

        /// The clock, for tests.
        var now: @Sendable () -> Date = { Date() }

        /// Creates a configuration.
        public init(
            bucket: String, region: String, credentials: S3CredentialSource = .standard, endpoint: String? = nil
        ) {
            self.bucket = bucket
            self.region = region
            self.credentials = credentials
            self.endpoint = endpoint
        }
    }
}
#endif
