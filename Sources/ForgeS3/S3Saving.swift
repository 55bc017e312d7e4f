#if S3
import Crypto
import ForgeFileStore
import ForgeFileSystem
import ForgeHTTP
package import Foundation
import Logging
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
            if condition != .none { try await conditionProbe.require(condition, isMultipart: isMultipart) }
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

/// A content to store, which can be read several times.
struct S3Content: Sendable {
    var sizeInBytes: Int64

    /// Its SHA-256; nil if it must be computed.
    var checksum: String?

    /// Reads a range.
    var read: @Sendable (Range<Int64>) async throws -> ByteBuffer

    /// Throws if the source of the content has changed.
    var check: @Sendable () throws -> Void = {}

    init(_ data: Data) {
        let bytes = ByteBuffer(bytes: data)
        sizeInBytes = Int64(data.count)
        read = { range in
            guard let part = bytes.getSlice(at: Int(range.lowerBound), length: range.count) else {
                throw S3Error(.damaged)
            }
            return part
        }
    }

    init(_ source: SourceContent) {
        sizeInBytes = source.sizeInBytes
        read = { range in
            try await BlockingLane.general.run { () throws(any Error) in
                try ByteBuffer(capacity: range.count) { buffer in
                    try source.read(into: &buffer, upTo: range.count, at: range.lowerBound)
                }
            }
        }
        check = { try source.checkUnchanged() }
    }

    init(_ file: S3TemporaryFile, checksum: String) {
        sizeInBytes = file.sizeInBytes
        self.checksum = checksum
        read = { try await file.read($0) }
    }

    init(sizeInBytes: Int64, checksum: String, read: @escaping @Sendable (Range<Int64>) async throws -> ByteBuffer) {
        self.sizeInBytes = sizeInBytes
        self.checksum = checksum
        self.read = read
    }

    /// The SHA-256 of the content in hexadecimal digits. The next part is read while one is hashed.
    func digest(partSize: Int) async throws -> String {
        if let checksum { return checksum }
        return try await withThrowingTaskGroup(of: ByteBuffer.self) { group in
            var rest = S3Content.parts(of: sizeInBytes, size: partSize)[...]
            if let range = rest.popFirst() { group.addTask { try await read(range) } }
            var hash = SHA256()
            while let bytes = try await group.next() {
                try Task.checkCancellation()
                if let range = rest.popFirst() { group.addTask { try await read(range) } }
                hash.update(bytes)
            }
            return hash.hexadecimalDigest()
        }
    }

    /// The ranges of the parts of a size.
    static func parts(of sizeInBytes: Int64, size: Int) -> [Range<Int64>] {
        stride(from: 0, to: sizeInBytes, by: size).map { $0..<min($0 + Int64(size), sizeInBytes) }
    }
}

extension ByteBuffer {
    /// The bytes that `fill` appends to a buffer of a capacity.
    init<Failure: Error>(
        capacity: Int, filling fill: (inout OutputRawSpan) throws(Failure) -> Void
    ) throws(Failure) {
        self.init()
        try writeWithOutputRawSpan(minimumWritableBytes: capacity, initializingWith: fill)
    }
}

extension S3FileStore {
    /// Stores a content in parts.
    func upload(_ write: S3Write) async throws -> StoredFile {
        var backoff = Backoff()
        var mayBeApplied = false
        while true {
            do {
                return try await uploadOnce(write)
            } catch let error as S3Error where error.status == 409 && backoff.attempts < 5 {
                mayBeApplied = mayBeApplied || error.mayBeApplied
                // The parts must be sent again ("CompleteMultipartUpload", Amazon S3 API Reference).
                var generator = SystemRandomNumberGenerator()
                try await Task.sleep(for: backoff.next(using: &generator))
            } catch var error as S3Error {
                error.mayBeApplied = error.mayBeApplied || mayBeApplied
                return try await settle(write, error)
            } catch {
                guard mayBeApplied else { throw error }
                throw FileStoreError(.unknownOutcome, write.operation, key: write.key, underlying: error)
            }
        }
    }

    private func uploadOnce(_ write: S3Write) async throws -> StoredFile {
        let upload = try await S3Upload.begin(write.object, write.metadata.headers, transport)
        do {
            let parts = try await send(write, upload)
            try write.content.check()
            let (answer, etag) = try await upload.complete(parts, write.condition)
            if let etag { return write.stored(answer, etag: etag) }
            return await stored(write, answer)
        } catch {
            // An upload whose end is unknown may still become an object.
            if (error as? S3Error)?.reason != .unknownOutcome { await upload.abort() }
            throw error
        }
    }

    /// The stored file, with the ETag that the server names later; without a revision if that is not known.
    private func stored(_ write: S3Write, _ answer: S3Response) async -> StoredFile {
        do {
            // Another write may have replaced the object since; its ETag is not that of this one.
            let head = try await head(write.object, write.operation, write.key)
            return write.stored(head?.metadata.writeID == write.metadata.writeID ? head ?? answer : answer)
        } catch {
            configuration.logger.debug("the revision is not known", metadata: ["error": "\(error)"])
            return write.stored(answer)
        }
    }

    /// Sends the parts, several at the same time.
    private func send(_ write: S3Write, _ upload: S3Upload) async throws -> [S3Upload.Part] {
        let size = write.content.sizeInBytes
        let least = (size + Int64(S3Upload.maximumPartCount) - 1) / Int64(S3Upload.maximumPartCount)
        let partSize = max(configuration.partSizeInBytes, Int(least))
        return try await withThrowingTaskGroup(of: S3Upload.Part.self) { group in
            var parts: [S3Upload.Part] = []
            var hash = SHA256()
            for (index, range) in S3Content.parts(of: size, size: partSize).enumerated() {
                if index >= configuration.transferCount, let part = try await group.next() { parts.append(part) }
                let bytes = try await write.content.read(range)
                guard bytes.readableBytes == range.count else { throw write.changed }
                hash.update(bytes)
                group.addTask { try await upload.send(bytes, number: index + 1) }
            }
            for try await part in group { parts.append(part) }
            guard hash.hexadecimalDigest() == write.metadata.checksum else { throw write.changed }
            return parts
        }
    }
}

extension S3FileStore {
    /// Stores a content that a caller reads, replacing an existing file, with constant memory.
    ///
    /// - Parameters:
    ///   - sizeInBytes: The size of the content.
    ///   - checksum: Its SHA-256 in hexadecimal digits, which is compared with what was read.
    ///   - key: The key of the file.
    ///   - read: Reads a range; fewer bytes mean that the content has changed. The ranges of a content are read one
    ///     after the other, and again if the upload must be repeated.
    ///   - check: Throws if the content has changed; called before the end of an upload.
    /// - Throws: `FileStoreError`: `.invalidSource(.changed)` if the content does not have the size or the checksum;
    ///   the errors of `read` and `check`. The old file is kept, unless the code is `.unknownOutcome`.
    package func save(
        sizeInBytes: Int64, checksum: String, to key: String,
        reading read: @escaping @Sendable (Range<Int64>) async throws -> Data,
        checking check: @escaping @Sendable () throws -> Void
    ) async throws {
        var content = S3Content(sizeInBytes: sizeInBytes, checksum: checksum) { ByteBuffer(bytes: try await read($0)) }
        content.check = check
        _ = try await store(content, to: key, .always, .save)
    }
}
#endif
