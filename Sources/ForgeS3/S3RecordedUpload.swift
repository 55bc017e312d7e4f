#if S3
import Foundation
import Logging
import NIOCore

/// An upload with a record of it in the bucket.
struct S3RecordedUpload: Sendable {
    let upload: S3Upload
    private let name: String
    private let record: S3UploadRecord

    /// Stores a record and begins an upload. The record is first, because the beginning can have an effect without an
    /// answer.
    static func begin(
        _ object: String, _ headers: [(String, String)], _ transport: S3Transport
    ) async throws(S3Error) -> S3RecordedUpload {
        let name = transport.place.records + S3Metadata.newWriteID()
        var record = S3UploadRecord(object: object, seconds: transport.configuration.deadline / .seconds(1))
        try await record.keep(name, transport)
        do throws(S3Error) {
            let upload = try await S3Upload.begin(object, headers, transport)
            record.upload = upload.id
            record.hasOthers = upload.hasOthers
            return S3RecordedUpload(upload: upload, name: name, record: record)
        } catch {
            if !error.mayBeApplied { await S3UploadRecord.forget(name, transport) }
            // No object was changed.
            var error = error
            error.mayBeApplied = false
            throw error
        }
    }

    /// Adds the name of the upload to its record.
    func keepName() async throws(S3Error) { try await record.keep(name, upload.transport) }

    /// Removes the record of an upload that has ended, unless there may be others without a name.
    func forget() async {
        if !upload.hasOthers { await S3UploadRecord.forget(name, upload.transport) }
    }

    /// Removes the parts, and the record if they are gone; also in a cancelled task.
    func abort() async {
        if await upload.abort() { await forget() }
    }
}

extension S3UploadRecord {
    fileprivate func keep(_ name: String, _ transport: S3Transport) async throws(S3Error) {
        let content: Data
        do { content = try JSONEncoder().encode(self) } catch {
            throw S3Error(.refused, detail: "the record of an upload cannot be encoded")
        }
        _ = try await transport.send(
            S3Request(name: "PutObject", method: "PUT", object: name, body: ByteBuffer(bytes: content)))
    }

    /// Removes a record; also in a cancelled task. If that fails, the removal of abandoned uploads does it.
    static func forget(_ name: String, _ transport: S3Transport) async {
        await Task.detached {
            do throws(S3Error) {
                _ = try await transport.send(
                    S3Request(name: "DeleteObject", method: "DELETE", object: name, isWrite: true))
            } catch {
                transport.configuration.logger.debug("a record stays", metadata: ["error": "\(error)"])
            }
        }.value
    }
}
#endif
