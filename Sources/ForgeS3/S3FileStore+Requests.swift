#if S3
import ForgeFileStore
import ForgeFileSystem
import Foundation

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
#endif
