#if S3
public import ForgeFileStore
public import ForgeFileSystem
public import Foundation
import Logging
import Synchronization

/// A file store in a bucket of S3, or of a server with its API.
///
/// A file is the object with the same key, after the prefix of the store; any other client can read it. The keys of
/// files have the rules of every `FileStoring`. Objects whose keys break them, and those below `#tmp-s3/`, which the
/// store uses itself, are not listed and not deleted; ``deleteDirectory(_:)`` reports them as `.foreignContent`.
///
/// Differences from a store on disk:
/// - **Directories.** S3 has none. A directory exists while there is an object below its key; ``createDirectory(_:)``
///   stores an empty object `directory/` as a marker, for it and for its parents. Its time is 1970. A directory
///   without a marker ends with its last file.
/// - **Files and directories.** A save looks for files at its parents and below its key
///   (``Configuration/checksHierarchy``). Of two saves at the same time, one of `a` and one of `a/b`, both may succeed;
///   both files can then be loaded and deleted, and `a` is listed as a file and as a directory.
/// - **Several objects.** ``deleteDirectory(_:)`` and ``deleteAll()`` delete batches of 1,000: after a failure, some
///   files are deleted. Of several calls that delete the same file at the same time, several may succeed.
/// - **URLs.** ``url(for:)`` throws `.unsupported`; ``presignedURL(for:validFor:)`` is for those who may have one.
/// - **Outcomes.** If a save or deletion was sent, and no answer came before the deadline, the error is
///   `.unknownOutcome`.
///
/// Every save has a random name in the metadata of its object. Exclusive saves use `If-None-Match: *`; those of a
/// revision `If-Match` with the ETag, after a look at the name of the write, because equal contents have equal ETags.
/// `409` is repeated; after `412` the name of the write says whether an earlier attempt of the same save has stored
/// the file. Not every server keeps these conditions. Before the first save that needs one, the store tries it on an
/// object of its own, for plain and for multipart uploads; if the server ignores it, the save throws `.unsupported`
/// with the underlying ``S3Error`` ``S3Error/Reason-swift.enum/noExclusiveCreation`` or
/// ``S3Error/Reason-swift.enum/noConditionalReplacement``.
///
/// The SHA-256 of the content is in the metadata too, before its upload begins, and is compared by every load of the
/// whole file. A larger file is sent and loaded in parts, several at the same time, with constant memory.
///
/// S3 acknowledges a save after it is durable and visible to every later call ("Amazon S3 data consistency model").
/// Requests are repeated with full jitter, until the deadline, after statuses 429, 500, 502, 503 and 504, `SlowDown`
/// and lost connections. All calls are thread-safe. A store that is released closes its connections; ``close()`` waits
/// for that.
public final class S3FileStore: FileStoring {
    let transport: S3Transport
    let promises: S3Promises
    private let hasRemovedUploads = Mutex(false)
    var configuration: Configuration { transport.configuration }
    var place: S3Place { transport.place }

    /// Creates a store; connects with the first call.
    ///
    /// - Throws: ``S3Error`` with the reason `invalidConfiguration`.
    public init(_ configuration: Configuration) throws(S3Error) {
        transport = try S3Transport(configuration)
        promises = S3Promises(transport)
    }

    /// Ends all calls and closes the connections. Later calls throw.
    public func close() async { await transport.close() }

    public func save(_ data: Data, to key: String, overwrite: Bool) async throws {
        _ = try await store(S3Content(data), to: key, overwrite ? .always : .absent, .save)
    }

    /// Stores `data` as the whole content of the file at `key`, if the existing file meets a condition.
    ///
    /// A revision names a write, and servers compare ETags, which are equal for equal contents. The store compares the
    /// write with a request before, and the server the ETag with the save. If another client writes the same content in
    /// between, or replaces the file and writes the old content again, the save replaces that write: no content is lost
    /// that the caller has not seen, but the revision of the other write is.
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

    /// Removes uploads that were not finished because their process ended, or because an answer was lost.
    ///
    /// Every upload has a record in the bucket, from before its beginning until after its end. An upload is removed if
    /// it is recorded, by any store with the prefix, and no part of it has arrived for
    /// ``Configuration/abandonedUploadAge``. Uploads of other programs are not touched, with one exception: if the
    /// answer to the beginning of an upload was lost, so that its name is not known, the record names the file and the
    /// time alone; all uploads to that file which begin in these minutes are then taken for the store's. A store does
    /// this once, when it first uploads in parts.
    ///
    /// An upload whose beginning is repeated by a proxy, which HTTP forbids, stays: a rule of the bucket that aborts
    /// incomplete uploads removes it.
    ///
    /// - Returns: The number of uploads removed.
    /// - Throws: `FileStoreError`.
    @discardableResult
    public func removeAbandonedUploads() async throws -> Int {
        try await removeUploads(olderThan: configuration.abandonedUploadAge)
    }

    /// Starts ``removeAbandonedUploads()`` the first time it is called.
    func removeAbandonedUploadsOnce() {
        let isFirst = hasRemovedUploads.withLock { done in
            defer { done = true }
            return !done
        }
        guard isFirst else { return }
        Task { [self] in
            do {
                try await removeAbandonedUploads()
            } catch {
                configuration.logger.debug("abandoned uploads stay", metadata: ["error": "\(error)"])
            }
        }
    }
}
#endif
