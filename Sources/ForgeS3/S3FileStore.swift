#if S3
public import ForgeFileStore
public import ForgeFileSystem
public import Foundation
public import Logging

/// A file store in a bucket of S3, or of a server with its API.
///
/// The file at a key is the object whose key is the prefix of the store followed by the key; any other client can read
/// it. Keys follow the rules of `FileStoring`. Objects whose keys violate these rules, and objects below `#tmp-s3/`,
/// which the store uses itself, are neither listed nor deleted; nor are objects with content whose keys end with a slash.
/// If a directory contains such an object, ``deleteDirectory(_:)`` throws `.foreignContent`, and deletes nothing unless
/// the object was stored meanwhile.
///
/// Differences from a store on disk:
/// - **Directories.** S3 has none. A directory exists while there is an object below its key; ``createDirectory(_:)``
///   stores an empty object `directory/` as a marker, for it and for its parents. The modification time of a directory
///   is 1 January 1970. A directory without a marker disappears with its last file.
/// - **Files and directories.** A save looks for files at its parents and below its key
///   (``Configuration/checksHierarchy``). Of two saves at the same time, one of `a` and one of `a/b`, both may succeed;
///   both files can then be loaded and deleted, and `a` is listed as a file and as a directory.
/// - **Several objects.** ``deleteDirectory(_:)`` and ``deleteAll()`` delete batches of 1,000: after a failure, some
///   files are deleted. Of several calls that delete the same file at the same time, several may succeed.
/// - **URLs.** ``url(for:)`` throws `.unsupported`; use ``presignedURL(for:validFor:)``.
/// - **Outcomes.** If a save or deletion was sent, and no answer came before the deadline, the error is
///   `.unknownOutcome`.
///
/// Every save stores a random write ID in the metadata of its object. An exclusive save sends `If-None-Match: *`. A
/// save of a revision compares the write ID, because equal contents have equal ETags, and then sends `If-Match` with
/// the ETag. A save is repeated after `409`. After `412`, the write ID of the object tells whether an earlier attempt
/// of the same save has stored it. Not every server implements these conditions. Before the first save that needs one,
/// the store tests it on a temporary object, separately for plain and for multipart uploads. If the server ignores it,
/// the save throws `.unsupported` with the underlying ``S3Error``
/// ``S3Error/Reason-swift.enum/noExclusiveCreation`` or ``S3Error/Reason-swift.enum/noConditionalReplacement``.
///
/// The metadata also contains the SHA-256 of the content, which every load of the whole file verifies. A file larger
/// than a part is transferred in parts, several at the same time; ``contents(of:)`` loads it with constant memory.
///
/// S3 acknowledges a save after it is durable and visible to every later call ("Amazon S3 data consistency model").
/// Requests are repeated with full jitter, until the deadline, after statuses 429, 500, 502, 503 and 504, `SlowDown`
/// and lost connections. All calls are thread-safe. A store that is released closes its connections; ``close()`` waits
/// for that.
public final class S3FileStore: FileStoring {
    let transport: S3Transport
    let conditionProbe: S3ConditionProbe
    var configuration: Configuration { transport.configuration }
    var place: S3Place { transport.place }

    /// Creates a store; connects with the first call.
    ///
    /// - Throws: ``S3Error`` with the reason `invalidConfiguration`, also if its certificates cannot be read.
    public init(_ configuration: Configuration) throws(S3Error) {
        transport = try S3Transport(configuration)
        conditionProbe = S3ConditionProbe(transport)
    }

    /// Ends all calls and closes the connections. Later calls throw.
    public func close() async { await transport.close() }

    public func save(_ data: Data, to key: String, overwrite: Bool) async throws {
        _ = try await store(S3Content(data), to: key, overwrite ? .always : .absent, .save)
    }

    /// Stores `data` as the whole content of the file at `key`, if the existing file meets a condition.
    ///
    /// A revision identifies one write, but servers compare only ETags, which are equal for equal contents. The store
    /// therefore compares the ID of the write in a separate request, and the server then compares the ETag. If another
    /// client stores the old content again between these two requests, the save replaces that write instead of throwing
    /// `.conflict`. The replaced content is always one that the caller has seen.
    ///
    /// - Parameters:
    ///   - data: The content.
    ///   - key: The key of the file.
    ///   - condition: The existing file that may be replaced. Revisions come from this call, ``revision(of:)`` and
    ///     ``reader(for:)``.
    /// - Returns: The stored file with its revision, and the server's time of the answer.
    /// - Throws: `FileStoreError`: `.alreadyExists`, `.conflict`, or `.unsupported` if the server does not keep
    ///   conditions; the old content is kept, unless the code is `.unknownOutcome`.
    @discardableResult
    public func save(_ data: Data, to key: String, if condition: SaveCondition) async throws -> StoredFile {
        try await store(S3Content(data), to: key, condition, .save)
    }

    /// The revision of the file at `key`, for ``save(_:to:if:)``.
    ///
    /// - Throws: `FileStoreError`: `.notFound` if there is none.
    public func revision(of key: String) async throws -> FileRevision {
        try await reader(for: key).revision
    }

    public func info(_ key: String) async throws -> StoredFile {
        let object = try place.object(key, .info)
        if let found = try await head(object, .info, key) {
            do throws(S3Error) { return try found.file(key) } catch { throw failure(error, .info, key) }
        }
        let failure = try await missing(key, .info)
        guard failure.code == .isDirectory else { throw failure }
        return .directory(key)
    }

    public func exists(_ key: String) async -> Bool {
        do {
            _ = try await info(key)
            return true
        } catch {
            return false
        }
    }

    public func delete(_ key: String) async throws {
        let object = try place.object(key, .delete)
        guard try await head(object, .delete, key) != nil else { throw try await missing(key, .delete) }
        _ = try await send(
            S3Request(name: "DeleteObject", method: "DELETE", object: object, isWrite: true), .delete, key)
    }

    public func createDirectory(_ key: String) async throws {
        let object = try place.object(key, .createDirectory)
        // The marker has a slash more.
        guard object.utf8.count < S3Place.maximumKeyLength else {
            throw FileStoreError(.invalidKey(.tooLong), .createDirectory, key: key)
        }
        let levels = Self.parents(of: key) + [key]
        guard try await !areFiles(levels, .createDirectory, key) else {
            throw FileStoreError(.notDirectory, .createDirectory, key: key)
        }
        // Parents first: after a failure there is no marker without those above.
        for level in levels {
            // Other programs may keep content there.
            if try await head(place.prefix + level + "/", .createDirectory, key) != nil { continue }
            _ = try await send(
                S3Request(
                    name: "PutObject", method: "PUT", object: place.prefix + level + "/", isWrite: true),
                .createDirectory, key)
        }
    }

    /// A URL at which others can read the file at `key` for a while, without credentials; the file need not exist.
    ///
    /// Keep the URL secret. Anyone with the URL can read the file until the URL or the credentials that signed it
    /// expire, also after the file was replaced ("Sharing objects with presigned URLs", Amazon S3 User Guide).
    ///
    /// - Parameters:
    ///   - key: The key of the file.
    ///   - duration: How long the URL is valid: whole seconds, at least 1, at most 7 days.
    /// - Returns: The URL.
    /// - Throws: `FileStoreError`.
    public func presignedURL(for key: String, validFor duration: Duration) async throws -> URL {
        let object = try place.object(key, .url)
        let seconds = max(1, min(7 * 24 * 3600, Int(clamping: duration.components.seconds)))
        do throws(S3Error) {
            let text = try await transport.presigned("GET", object: object, validFor: seconds)
            guard let url = URL(string: text) else { throw S3Error(.invalidConfiguration, detail: "the endpoint") }
            return url
        } catch {
            throw failure(error, .url, key)
        }
    }

    public func url(for key: String) async throws -> URL {
        _ = try place.object(key, .url)
        throw FileStoreError(.unsupported, .url, key: key)
    }
}

extension S3FileStore {
    /// Sends a request, whose failure is that of an operation of the store.
    func send(
        _ request: S3Request, _ operation: FileStoreError.Operation, _ key: String
    ) async throws -> S3Response {
        do throws(S3Error) {
            return try await transport.send(request)
        } catch {
            throw failure(error, operation, key)
        }
    }

    /// The error of an operation for a failed request.
    func failure(_ error: S3Error, _ operation: FileStoreError.Operation, _ key: String) -> any Error {
        guard error.reason != .cancelled else { return CancellationError() }
        let code: FileStoreError.Code =
            switch (error.reason, error.code, error.status) {
            case (.unknownOutcome, _, _): .unknownOutcome
            case (.noExclusiveCreation, _, _), (.noConditionalReplacement, _, _): .unsupported
            case (.noCredentials, _, _): .notPermitted
            case (.damaged, _, _): .unavailable(.inputOutput)
            case (.refused, "EntityTooLarge", _): .tooLarge
            case (.refused, "KeyTooLongError", _): .invalidKey(.tooLong)
            case (.refused, "QuotaExceeded", _), (.refused, "XMinioStorageFull", _), (.refused, _, 507): .noSpace
            case (.refused, "NotImplemented", _), (.refused, _, 501): .unsupported
            case (.refused, "AccessDenied", _), (.refused, _, 401), (.refused, _, 403): .notPermitted
            case (.refused, "NoSuchKey", _): .notFound
            default: .unavailable(.server)
            }
        return FileStoreError(code, operation, key: key, underlying: error)
    }

    /// The head of an object; nil if there is none, or no bucket: a call that reports an absence must list.
    func head(_ object: String, _ operation: FileStoreError.Operation, _ key: String) async throws -> S3Response? {
        do throws(S3Error) {
            return try await transport.send(S3Request(name: "HeadObject", method: "HEAD", object: object))
        } catch {
            if error.reason == .refused, error.status == 404 { return nil }
            throw failure(error, operation, key)
        }
    }

    /// The code for a missing file: `.isDirectory`, `.notDirectory` if a parent is a file, otherwise `.notFound`.
    ///
    /// - Throws: `FileStoreError` if that is not known.
    func missing(_ key: String, _ operation: FileStoreError.Operation) async throws -> FileStoreError {
        async let isDirectory = isDirectory(key, operation)
        let isBelowFile = try await areFiles(Self.parents(of: key), operation, key)
        let code: FileStoreError.Code =
            if try await isDirectory { .isDirectory } else { isBelowFile ? .notDirectory : .notFound }
        return FileStoreError(code, operation, key: key)
    }

    /// Throws if a file at a key would be a directory too, or below a file.
    func checkHierarchy(_ key: String, _ operation: FileStoreError.Operation) async throws {
        guard configuration.checksHierarchy else { return }
        async let isDirectory = isDirectory(key, operation)
        if try await areFiles(Self.parents(of: key), operation, key) {
            throw FileStoreError(.notDirectory, operation, key: key)
        }
        if try await isDirectory { throw FileStoreError(.isDirectory, operation, key: key) }
    }

    /// Whether there is an object below a key.
    func isDirectory(_ key: String, _ operation: FileStoreError.Operation) async throws -> Bool {
        let object = place.prefix + key + "/"
        // Nothing is below the longest key.
        guard object.utf8.count <= S3Place.maximumKeyLength else { return false }
        let page = try await page(
            S3ListRequest(prefix: object, isFlat: true, limit: 1), operation, key)
        return !page.isEmpty
    }

    /// Whether one of some keys is a file.
    func areFiles(
        _ keys: [String], _ operation: FileStoreError.Operation, _ key: String
    ) async throws -> Bool {
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for parent in keys {
                group.addTask { try await self.head(self.place.prefix + parent, operation, key) != nil }
            }
            for try await isFile in group where isFile {
                group.cancelAll()
                return true
            }
            return false
        }
    }

    /// The keys of the directories that contain a file, from the outermost.
    static func parents(of key: String) -> [String] {
        key.utf8.indices.filter { key.utf8[$0] == UInt8(ascii: "/") }.map { String(key[..<$0]) }
    }
}

extension S3Response {
    /// The description of a file by the head of its object, without a revision, which listings do not have.
    ///
    /// - Throws: ``S3Error`` if the server does not say how long the object is.
    func file(_ key: String) throws(S3Error) -> StoredFile {
        guard let sizeInBytes else { throw S3Error(.invalidAnswer, status: status, detail: "the size is missing") }
        return StoredFile(key: key, sizeInBytes: sizeInBytes, modified: modified)
    }
}

extension StoredFile {
    /// The description of a directory: S3 has no times of directories.
    static func directory(_ key: String) -> StoredFile {
        StoredFile(key: key, kind: .directory, sizeInBytes: 0, modified: Date(timeIntervalSince1970: 0))
    }
}

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

        /// The path of trusted certificates in PEM form, which are read when the store is created; nil for those of the
        /// system.
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
#else
/// A file store in S3, which needs the trait `S3`.
@available(*, unavailable, message: "name the trait S3 for ForgeStorage in the root package's manifest")
public final class S3FileStore: Sendable {}

/// Where a store in S3 gets its credentials, which needs the trait `S3`.
@available(*, unavailable, message: "name the trait S3 for ForgeStorage in the root package's manifest")
public struct S3CredentialSource: Sendable {}
#endif
