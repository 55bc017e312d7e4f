#if S3
import Crypto
import ForgeFileStore
import ForgeHTTP
import Foundation
import Logging
import NIOCore

extension S3FileStore {
    /// Stores a content in parts.
    func upload(_ write: S3Write) async throws -> StoredFile {
        removeAbandonedUploadsOnce()
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
        let upload = try await S3RecordedUpload.begin(write.object, write.metadata.headers, transport)
        do {
            let parts = try await send(write, upload)
            try write.content.check()
            let (answer, etag) = try await upload.upload.complete(parts, write.condition)
            await upload.forget()
            if let etag { return write.stored(answer, etag: etag) }
            return await stored(write, answer)
        } catch {
            // An upload whose end is unknown may still become an object; the record stays for its removal.
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

    /// Sends the parts, several at the same time, and the name of the upload to its record.
    private func send(_ write: S3Write, _ recorded: S3RecordedUpload) async throws -> [S3Upload.Part] {
        let upload = recorded.upload
        let size = write.content.sizeInBytes
        let least = (size + Int64(S3Upload.maximumPartCount) - 1) / Int64(S3Upload.maximumPartCount)
        let partSize = max(configuration.partSizeInBytes, Int(least))
        async let named: Void = recorded.keepName()
        let parts = try await withThrowingTaskGroup(of: S3Upload.Part.self) { group in
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
        try await named
        return parts
    }
}
#endif
