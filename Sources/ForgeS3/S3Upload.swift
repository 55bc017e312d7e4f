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

    /// The uploads to an object that were begun and not ended.
    static func unfinished(
        _ object: String, _ transport: S3Transport
    ) async throws(S3Error) -> [(id: String, begun: Date)] {
        var found: [(id: String, begun: Date)] = []
        var markers: [(String, String)] = []
        while true {
            let document = try await transport.send(
                S3Request(
                    name: "ListMultipartUploads",
                    query: [("uploads", ""), ("encoding-type", "url"), ("prefix", object)] + markers)
            ).document()
            guard document.name == "ListMultipartUploadsResult" else { throw S3Error(.invalidAnswer) }
            let isEncoded = document["EncodingType"]?.text == "url"
            for upload in document.all("Upload") {
                guard let text = upload["Key"]?.text, let id = upload["UploadId"]?.text, !id.isEmpty,
                    let key = isEncoded ? S3Encoding.decodingListed(text) : text,
                    let time = S3Date.listed(upload["Initiated"]?.text)
                else { throw S3Error(.invalidAnswer) }
                if key.utf8.elementsEqual(object.utf8) { found.append((id, time)) }
            }
            guard document["IsTruncated"]?.text == "true" else { return found }
            guard let key = document["NextKeyMarker"]?.text, let id = document["NextUploadIdMarker"]?.text,
                let name = isEncoded ? S3Encoding.decodingListed(key) : key,
                markers.map(\.1) != [name, id]
            else { throw S3Error(.invalidAnswer) }
            // Longer keys follow the uploads to the object.
            guard name.utf8.elementsEqual(object.utf8) else { return found }
            markers = [("key-marker", name), ("upload-id-marker", id)]
        }
    }
}

/// What the store keeps about an upload from before its beginning until its end, to remove it if its process ends
/// first.
struct S3UploadRecord: Codable, Hashable {
    var version = 1
    var object: String

    /// The name of the upload; nil before it has begun.
    var upload: String?

    /// Whether attempts to begin it may have begun others, whose names are not known.
    var hasOthers: Bool?

    /// The time for the beginning of the upload, in seconds.
    var seconds: Double

    init(object: String, seconds: Double) {
        self.object = object
        self.seconds = seconds
    }

    /// Whether the record can be one of a store with a prefix. An empty upload ID is not valid: a request to abort that
    /// upload could delete the object instead.
    func isValid(prefix: String) -> Bool {
        object.utf8.starts(with: prefix.utf8) && upload != "" && (0...1_000_000).contains(seconds)
    }

    /// Whether an upload to the object which began at a time may be one without a name.
    ///
    /// The record is stored before the upload begins and again afterwards, with the server's time.
    func mayBeOwn(begun time: Date, recorded: Date) -> Bool {
        abs(time.timeIntervalSince(recorded)) <= 2 * seconds + 60
    }
}

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

extension S3FileStore {
    /// Aborts recorded uploads of which no part has arrived for an age, and removes their records.
    func removeUploads(olderThan age: Duration) async throws -> Int {
        let limit = transport.serverTime - age / .seconds(1)
        var count = 0
        try await forEachPage(S3ListRequest(prefix: place.records, isFlat: true), .delete, "") { page in
            for entry in page.entries where entry.modified <= limit {
                do throws(S3Error) {
                    count += try await removeUploads(of: entry, lastUsedBefore: limit)
                } catch {
                    throw failure(error, .delete, "")
                }
            }
        }
        return count
    }

    /// Aborts the uploads of a record that are not in use, and removes the record if none is left.
    private func removeUploads(of entry: S3Page.Entry, lastUsedBefore limit: Date) async throws(S3Error) -> Int {
        guard let record = try await record(entry) else { return 0 }
        var ids: [String] = []
        var hasRecent = false
        if let id = record.upload { ids.append(id) }
        if record.upload == nil || record.hasOthers == true {
            let others = try await S3Upload.unfinished(record.object, transport)
                .filter { record.mayBeOwn(begun: $0.begun, recorded: entry.modified) && $0.id != record.upload }
            // One that has just begun may be in use although it has no part yet.
            ids += others.filter { $0.begun <= limit }.map(\.id)
            hasRecent = others.contains { $0.begun > limit }
        }
        var (count, isDone) = (0, !hasRecent)
        for id in ids {
            let upload = S3Upload(object: record.object, id: id, transport)
            switch try await upload.lastPart() {
            case .gone: break
            case .arrived(let time?) where time > limit: isDone = false
            case .arrived:
                guard await upload.abort() else {
                    isDone = false
                    continue
                }
                count += 1
            }
        }
        if isDone { await S3UploadRecord.forget(entry.object, transport) }
        return count
    }

    /// The content of a record; nil if it is gone or not valid.
    private func record(_ entry: S3Page.Entry) async throws(S3Error) -> S3UploadRecord? {
        let content: S3Response
        do throws(S3Error) {
            content = try await transport.send(S3Request(name: "GetObject", object: entry.object))
        } catch {
            guard error.code == "NoSuchKey" else { throw error }
            return nil
        }
        do {
            let record = try JSONDecoder().decode(S3UploadRecord.self, from: Data(content.bytes.readableBytesView))
            if record.isValid(prefix: place.prefix) { return record }
        } catch {}
        configuration.logger.notice("the record of an upload is not valid")
        return nil
    }
}
#endif
