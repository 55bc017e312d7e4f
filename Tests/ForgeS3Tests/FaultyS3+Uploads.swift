#if S3
import Foundation

/// The requests of uploads in parts.
extension FaultyS3 {
    func multipart(_ request: Request, _ key: String, _ id: String, _ content: inout Content) -> Answer {
        guard let upload = content.uploads[id] else { return .error(404, "NoSuchUpload") }
        switch request.method {
        case "GET": return parts(request, upload)
        case "PUT":
            guard let number = request.query["partNumber"].flatMap(Int.init) else { return .error(400, "BadRequest") }
            content.uploads[id]?.parts[number] = request.body
            content.uploads[id]?.used = Date()
            return Answer(headers: ["ETag": "\"part\(number)\""])
        case "POST":
            if !ignored.contains(.multipart), let refusal = refusal(request, content.objects[key]) {
                return refusal
            }
            content.uploads[id] = nil
            let data = upload.parts.sorted { $0.key < $1.key }.reduce(into: Data()) { $0 += $1.value }
            let object = content.put(key, data, upload.metadata)
            return .xml(
                "<CompleteMultipartUploadResult><ETag>&quot;\(object.etag.dropFirst().dropLast())&quot;</ETag></CompleteMultipartUploadResult>"
            )
        default:
            content.uploads[id] = nil
            return Answer(status: 204)
        }
    }

    /// A page of one part of an upload.
    private func parts(_ request: Request, _ upload: Upload) -> Answer {
        let marker = request.query["part-number-marker"].flatMap(Int.init) ?? 0
        let numbers = upload.parts.keys.sorted().filter { $0 > marker }
        var text = "<ListPartsResult><IsTruncated>\(numbers.count > 1)</IsTruncated>"
        if let number = numbers.first {
            let time = ISO8601DateFormatter().string(from: upload.used)
            text +=
                "<NextPartNumberMarker>\(number)</NextPartNumberMarker>"
                + "<Part><PartNumber>\(number)</PartNumber><LastModified>\(time)</LastModified></Part>"
        }
        return .xml(text + "</ListPartsResult>")
    }

    /// A page of one upload.
    func uploads(_ request: Request, _ content: Content) -> Answer {
        let prefix = request.query["prefix"] ?? ""
        let after = (request.query["key-marker"] ?? "", request.query["upload-id-marker"] ?? "")
        let found = content.uploads.map { ($0.value.key, $0.key, $0.value.begun) }
            .filter { $0.0.hasPrefix(prefix) && ($0.0, $0.1) > after }.sorted { ($0.0, $0.1) < ($1.0, $1.1) }
        var text = "<ListMultipartUploadsResult><IsTruncated>\(found.count > 1)</IsTruncated>"
        if let (key, id, begun) = found.first {
            text +=
                "<NextKeyMarker>\(key)</NextKeyMarker><NextUploadIdMarker>\(id)</NextUploadIdMarker>"
                + "<Upload><Key>\(key)</Key><UploadId>\(id)</UploadId>"
                + "<Initiated>\(ISO8601DateFormatter().string(from: begun))</Initiated></Upload>"
        }
        return .xml(text + "</ListMultipartUploadsResult>")
    }
}
#endif
