#if S3
import Crypto
import ForgeFileStore
import ForgeFileSystem
import Foundation
import NIOCore
import NIOHTTP1

extension S3FileStore {
    /// Stores a content, in parts if it is larger than one.
    func store(
        _ content: S3Content, to key: String, _ condition: SaveCondition, _ operation: FileStoreError.Operation
    ) async throws -> StoredFile {
        let object = try place.object(key, operation)
        try Task.checkCancellation()
        try await checkHierarchy(key, operation)
        let condition = try await checked(condition, object, operation, key)
        let isMultipart = content.sizeInBytes > configuration.partSizeInBytes
        do throws(S3Error) {
            try await promises.require(condition, isMultipart: isMultipart)
        } catch {
            throw failure(error, operation, key)
        }
        var write = S3Write(
            object: object, key: key, operation: operation, condition: condition,
            metadata: S3Metadata(writeID: S3Metadata.newWriteID()), content: content)
        do {
            guard isMultipart else { return try await put(&write) }
            write.metadata.checksum = try await content.digest(partSize: configuration.partSizeInBytes)
            return try await upload(write)
        } catch let error as FileSystemError {
            // The temporary file of a writer.
            throw FileStoreError(error, operation, key: key)
        }
    }

    /// The condition of requests for the condition of a save.
    private func checked(
        _ condition: SaveCondition, _ object: String, _ operation: FileStoreError.Operation, _ key: String
    ) async throws -> S3Condition {
        switch condition {
        case .always: return .none
        case .absent: return .absent
        case .unchanged(let revision):
            // The ETag alone does not tell a later write of the same content.
            guard let expected = S3Revision(revision), let head = try await head(object, operation, key),
                head.etag == expected.etag, head.metadata.writeID == expected.writeID
            else { throw FileStoreError(.conflict, operation, key: key) }
            return .unchanged(etag: expected.etag)
        }
    }

    private func put(_ write: inout S3Write) async throws -> StoredFile {
        let bytes = try await write.content.read(0..<write.content.sizeInBytes)
        guard bytes.readableBytes == write.content.sizeInBytes else { throw write.changed }
        try write.content.check()
        let checksum = SHA256.hexadecimalDigest(of: bytes)
        guard checksum == write.content.checksum ?? checksum else { throw write.changed }
        write.metadata.checksum = checksum
        let request = S3Request(
            name: "PutObject", method: "PUT", object: write.object,
            headers: write.metadata.headers + write.condition.headers, body: bytes, payloadHash: checksum,
            isWrite: true)
        do throws(S3Error) {
            let answer = try await transport.send(request)
            // S3 always sends one. An answer without it comes from a proxy.
            guard answer.etag != nil else { throw S3Error(.unknownOutcome, detail: "the answer has no ETag") }
            return write.stored(answer)
        } catch {
            return try await settle(write, error)
        }
    }

    /// Decides the outcome of a write that the server refused. If the stored object carries the write's id, an earlier
    /// attempt has stored it, and the write succeeded.
    func settle(_ write: S3Write, _ error: S3Error) async throws -> StoredFile {
        let isGone = error.code == "NoSuchUpload"
        let isUnknown = isGone || error.mayBeApplied
        guard isGone || error.refuses(write.condition) else {
            guard isUnknown else { throw failure(error, write.operation, write.key) }
            throw FileStoreError(.unknownOutcome, write.operation, key: write.key, underlying: error)
        }
        do {
            if let head = try await head(write.object, write.operation, write.key),
                head.metadata.writeID == write.metadata.writeID
            {
                return write.stored(head)
            }
        } catch {
            guard isUnknown else { throw error }
            throw FileStoreError(.unknownOutcome, write.operation, key: write.key, underlying: error)
        }
        // Another write may have replaced the object since.
        let code = isUnknown ? .unknownOutcome : write.condition.failure
        throw FileStoreError(code, write.operation, key: write.key, underlying: error)
    }
}

/// A content on its way to an object.
struct S3Write: Sendable {
    var object: String
    var key: String
    var operation: FileStoreError.Operation
    var condition: S3Condition
    var metadata: S3Metadata
    var content: S3Content

    /// The source has fewer bytes than before, or others.
    var changed: FileStoreError { FileStoreError(.invalidSource(.changed), operation, key: key) }

    /// The stored file.
    func stored(_ answer: S3Response, etag: String? = nil) -> StoredFile {
        let time = answer.headers.first(name: "Last-Modified") ?? answer.headers.first(name: "Date")
        let revision = (etag ?? answer.etag).map { S3Revision(writeID: metadata.writeID, etag: $0).revision }
        return StoredFile(
            key: key, sizeInBytes: content.sizeInBytes, modified: S3Date.header(time) ?? Date(), revision: revision)
    }
}
#endif
