#if S3
import Foundation
import NIOCore

/// An upload in parts that was begun.
struct S3Upload: Sendable {
    /// The largest number of parts ("Amazon S3 multipart upload limits").
    static let maximumPartCount = 10_000

    let object: String
    let id: String

    /// Whether earlier attempts to begin it may have begun others.
    let hasOthers: Bool
    let transport: S3Transport

    init(object: String, id: String, hasOthers: Bool = false, _ transport: S3Transport) {
        self.object = object
        self.id = id
        self.hasOthers = hasOthers
        self.transport = transport
    }

    /// A part that was sent.
    struct Part: Hashable, Sendable {
        var number: Int
        var etag: String
    }

    /// Begins an upload. If its answer is lost, it is begun again, and the first stays at the server.
    ///
    /// - Throws: ``S3Error``; `mayBeApplied` says whether an upload may have begun.
    static func begin(
        _ object: String, _ headers: [(String, String)], _ transport: S3Transport
    ) async throws(S3Error) -> S3Upload {
        let response = try await transport.send(
            S3Request(
                name: "CreateMultipartUpload", method: "POST", object: object, query: [("uploads", "")],
                headers: headers, isCreation: true))
        do throws(S3Error) {
            guard let id = try response.document()["UploadId"]?.text, !id.isEmpty else { throw S3Error(.invalidAnswer) }
            return S3Upload(object: object, id: id, hasOthers: response.followsLostAnswer, transport)
        } catch {
            var error = error
            error.mayBeApplied = true
            throw error
        }
    }

    func send(_ bytes: ByteBuffer, number: Int) async throws(S3Error) -> Part {
        let response = try await transport.send(
            S3Request(
                name: "UploadPart", method: "PUT", object: object,
                query: [("partNumber", String(number)), ("uploadId", id)], body: bytes))
        guard let etag = response.etag else { throw S3Error(.invalidAnswer) }
        return Part(number: number, etag: etag)
    }

    /// Makes the object of the parts.
    ///
    /// - Returns: The answer, and the ETag of the object; nil if the server does not send it as it does later (radosgw
    ///   sends none, or one without quotes).
    func complete(
        _ parts: [Part], _ condition: S3Condition
    ) async throws(S3Error) -> (answer: S3Response, etag: String?) {
        let list = parts.sorted { $0.number < $1.number }.map {
            "<Part><PartNumber>\($0.number)</PartNumber><ETag>\(S3Document.escaping($0.etag) ?? "")</ETag></Part>"
        }
        let body =
            "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
            + list.joined() + "</CompleteMultipartUpload>"
        let response = try await transport.send(
            S3Request(
                name: "CompleteMultipartUpload", method: "POST", object: object, query: [("uploadId", id)],
                headers: [("Content-Type", "application/xml")] + condition.headers, body: ByteBuffer(string: body),
                isWrite: true, answersBeforeItsEnd: true, repeatsAfterConflict: false))
        let etag = try response.document()["ETag"]?.text
        return (response, etag?.hasPrefix("\"") == true ? etag : nil)
    }

    /// Removes the parts; also in a cancelled task.
    ///
    /// - Returns: Whether the upload is gone.
    @discardableResult
    func abort() async -> Bool {
        let (transport, object, id) = (transport, object, id)
        return await Task.detached {
            do throws(S3Error) {
                _ = try await transport.send(
                    S3Request(
                        name: "AbortMultipartUpload", method: "DELETE", object: object, query: [("uploadId", id)]))
                return true
            } catch {
                return error.code == "NoSuchUpload"
            }
        }.value
    }
}
#endif
