#if S3
import Crypto
import ForgeFileStore
import ForgeHTTP
import Foundation
import Logging
import NIOCore

/// The record of an unfinished multipart upload, kept in the bucket so that a later process can abort the upload.
struct S3UploadRecord: Codable, Hashable {
    var version = 1
    var object: String
    var upload: String
}

extension S3FileStore {
    /// The prefix of the keys of records.
    private var records: String { place.prefix + S3Place.reserved + "uploads/" }

    /// Stores a content in parts.
    func upload(_ write: S3Write) async throws -> StoredFile {
        removeAbandonedUploadsOnce()
        var backoff = Backoff()
        while true {
            do {
                return try await uploadOnce(write)
            } catch let error as S3Error where error.status == 409 && backoff.attempts < 5 {
                // The parts must be sent again ("CompleteMultipartUpload", Amazon S3 API Reference).
                var generator = SystemRandomNumberGenerator()
                try await Task.sleep(for: backoff.next(using: &generator))
            } catch let error as S3Error {
                return try await settle(write, error)
            }
        }
    }

    private func uploadOnce(_ write: S3Write) async throws -> StoredFile {
        let upload = try await S3Upload.begin(write.object, write.metadata.headers, transport)
        let record = records + S3Metadata.newWriteID()
        do {
            let content = try JSONEncoder().encode(S3UploadRecord(object: write.object, upload: upload.id))
            _ = try await transport.send(
                S3Request(name: "PutObject", method: "PUT", object: record, body: ByteBuffer(bytes: content)))
            let parts = try await send(write, upload)
            try write.content.check()
            let (answer, etag) = try await upload.complete(parts, write.condition)
            await forget(record)
            return write.stored(answer, etag: etag)
        } catch {
            // An upload whose end is unknown may still become an object; the record stays for its removal.
            if (error as? S3Error)?.reason != .unknownOutcome, await upload.abort() { await forget(record) }
            throw error
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

    /// Removes a record. If that fails, the removal of abandoned uploads does it.
    private func forget(_ record: String) async {
        let transport = transport
        await Task.detached {
            do throws(S3Error) {
                _ = try await transport.send(
                    S3Request(name: "DeleteObject", method: "DELETE", object: record, isWrite: true))
            } catch {
                transport.configuration.logger.debug("a record stays", metadata: ["error": "\(error)"])
            }
        }.value
    }

    /// Aborts uploads whose records are older than an age, and removes the records.
    func removeUploads(olderThan age: Duration) async throws -> Int {
        let limit = transport.serverTime - age / .seconds(1)
        var count = 0
        try await forEachPage(S3ListRequest(prefix: records, isFlat: true), .delete, "") { page in
            for entry in page.entries where entry.modified <= limit {
                let content: S3Response
                do throws(S3Error) {
                    content = try await transport.send(S3Request(name: "GetObject", object: entry.object))
                } catch {
                    guard error.code == "NoSuchKey" else { throw failure(error, .delete, "") }
                    continue
                }
                let record: S3UploadRecord
                do {
                    record = try JSONDecoder().decode(S3UploadRecord.self, from: Data(content.bytes.readableBytesView))
                } catch {
                    configuration.logger.notice("the record of an upload is not valid")
                    continue
                }
                guard record.object.utf8.starts(with: place.prefix.utf8),
                    await S3Upload(object: record.object, id: record.upload, transport).abort()
                else { continue }
                await forget(entry.object)
                count += 1
            }
        }
        return count
    }
}
#endif
