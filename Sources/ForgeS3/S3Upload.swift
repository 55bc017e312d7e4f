#if S3
import ForgeFileStore
import Foundation
import Logging
import NIOCore

/// An upload in parts that was begun.
struct S3Upload: Sendable {
    /// The largest number of parts ("Amazon S3 multipart upload limits").
    static let maximumPartCount = 10_000

    let object: String
    let id: String

    let transport: S3Transport

    init(object: String, id: String, _ transport: S3Transport) {
        self.object = object
        self.id = id
        self.transport = transport
    }

    /// A part that was sent.
    struct Part: Hashable, Sendable {
        var number: Int
        var etag: String
    }

    /// Begins an upload. If its answer is lost, it is begun again, and the first stays at the server until
    /// ``S3FileStore/removeAbandonedUploads(olderThan:)``. A failure has changed no object.
    static func begin(
        _ object: String, _ headers: [(String, String)], _ transport: S3Transport
    ) async throws(S3Error) -> S3Upload {
        let response = try await transport.send(
            S3Request(
                name: "CreateMultipartUpload", method: "POST", object: object, query: [("uploads", "")],
                headers: headers))
        guard let id = try response.document()["UploadId"]?.text, !id.isEmpty else { throw S3Error(.invalidAnswer) }
        return S3Upload(object: object, id: id, transport)
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

extension S3Upload {
    /// The last use of an upload.
    enum Use: Hashable, Sendable {
        /// There is no upload: it was completed or aborted.
        case gone

        /// The time at which the newest part arrived; nil if there is none.
        case arrived(Date?)
    }

    /// When the newest part of the upload arrived.
    func lastPart() async throws(S3Error) -> Use {
        var newest: Date?
        var marker: String?
        while true {
            let document: S3Document
            do throws(S3Error) {
                document = try await transport.send(
                    S3Request(
                        name: "ListParts", object: object,
                        query: [("uploadId", id)] + (marker.map { [("part-number-marker", $0)] } ?? []))
                ).document()
            } catch {
                // The second is radosgw's.
                guard error.code == "NoSuchUpload" || error.code == "NoSuchKey" else { throw error }
                return .gone
            }
            guard document.name == "ListPartsResult" else { throw S3Error(.invalidAnswer) }
            for part in document.all("Part") {
                guard let time = S3Date.listed(part["LastModified"]?.text) else { throw S3Error(.invalidAnswer) }
                newest = max(newest ?? time, time)
            }
            guard document["IsTruncated"]?.text == "true" else { return .arrived(newest) }
            let next = document["NextPartNumberMarker"]?.text
            guard let next, next != marker else { throw S3Error(.invalidAnswer) }
            marker = next
        }
    }

    /// The uploads to objects with a prefix that were begun and not ended.
    static func unfinished(
        prefix: String, _ transport: S3Transport
    ) async throws(S3Error) -> [(upload: S3Upload, begun: Date)] {
        var found: [(upload: S3Upload, begun: Date)] = []
        var markers: [(String, String)] = []
        while true {
            let document = try await transport.send(
                S3Request(
                    name: "ListMultipartUploads",
                    query: [("uploads", ""), ("encoding-type", "url"), ("prefix", prefix)] + markers)
            ).document()
            guard document.name == "ListMultipartUploadsResult" else { throw S3Error(.invalidAnswer) }
            let isEncoded = document["EncodingType"]?.text == "url"
            for upload in document.all("Upload") {
                // An empty upload ID is not valid: a request to abort that upload could delete the object instead.
                guard let text = upload["Key"]?.text, let id = upload["UploadId"]?.text, !id.isEmpty,
                    let object = isEncoded ? S3Encoding.decodingListed(text) : text,
                    let time = S3Date.listed(upload["Initiated"]?.text)
                else { throw S3Error(.invalidAnswer) }
                found.append((S3Upload(object: object, id: id, transport), time))
            }
            guard document["IsTruncated"]?.text == "true" else { return found }
            guard let key = document["NextKeyMarker"]?.text, let id = document["NextUploadIdMarker"]?.text,
                let name = isEncoded ? S3Encoding.decodingListed(key) : key,
                markers.map(\.1) != [name, id]
            else { throw S3Error(.invalidAnswer) }
            markers = [("key-marker", name), ("upload-id-marker", id)]
        }
    }
}

extension S3FileStore {
    /// Removes uploads that were not finished because their process ended, or because an answer was lost.
    ///
    /// An upload in parts that never ends is billed and not listed. This call lists the unfinished uploads to keys of
    /// this store, and aborts those that began, and whose last part arrived, longer ago than `age`. It does not know
    /// which program began them: in a bucket whose prefix others write to as well, their uploads are aborted too. A
    /// lifecycle rule of the bucket that aborts incomplete multipart uploads makes this call unnecessary.
    ///
    /// - Parameter age: It must be longer than any part of any store with the prefix takes: several times the deadline.
    ///   The upload of a process that was stopped for longer can be removed; its save then fails, with the error
    ///   `.unknownOutcome`.
    /// - Returns: The number of uploads removed.
    /// - Throws: `FileStoreError`.
    @discardableResult
    public func removeAbandonedUploads(olderThan age: Duration = .seconds(24 * 3600)) async throws -> Int {
        let limit = transport.serverTime - age / .seconds(1)
        do throws(S3Error) {
            var count = 0
            for (upload, begun) in try await S3Upload.unfinished(prefix: place.prefix, transport) {
                // The listing of a server can contain more than the prefix.
                guard begun <= limit, place.isOwn(upload.object) else { continue }
                switch try await upload.lastPart() {
                case .gone: break
                case .arrived(let time?) where time > limit: break
                case .arrived: if await upload.abort() { count += 1 }
                }
            }
            return count
        } catch {
            throw failure(error, .delete, "")
        }
    }
}
#endif
