#if S3
import Foundation

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
#endif
