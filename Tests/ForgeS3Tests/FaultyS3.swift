#if S3
import ForgeFileStore
import ForgeS3
import Foundation
import Synchronization

/// A server with the API of S3 in memory, which fails as the test says. It does not check signatures.
final class FaultyS3: Sendable {
    typealias Request = LoopbackHTTP.Request
    typealias Answer = LoopbackHTTP.Answer

    enum Fault: Sendable {
        /// The request is not performed, and answered with an error.
        case fails(Int, String? = nil, headers: [String: String] = [:])

        /// The request is not performed, and the connection is closed.
        case losesRequest

        /// The request is performed, and the connection is closed.
        case losesAnswer

        /// The request is performed twice, as by a proxy that repeats it; the second answer is sent.
        case repeats

        /// The answer ends in the middle of its body.
        case cutsBody

        /// The answer comes late.
        case isLate(Duration)

        /// A byte of the body is changed.
        case damages

        /// The answer is whole, but has fewer bytes of the content than the object or the range.
        case shortens

        /// The request is performed, and answered with status 200 and an error.
        case hidesAnswer(String)

        /// Something else happens before the request is performed.
        case after(@Sendable (inout Content) -> Void)

        /// Something else happens after the request was performed.
        case before(@Sendable (inout Content) -> Void)
    }

    struct Object: Sendable {
        var data: Data
        var metadata: [String: String] = [:]
        var etag: String
        var modified = Date()
    }

    struct Upload: Sendable {
        var key: String
        var metadata: [String: String] = [:]
        var parts: [Int: Data] = [:]
        var begun = Date()

        /// When the newest part arrived.
        var used = Date()
    }

    struct Content: Sendable {
        var objects: [String: Object] = [:]
        var uploads: [String: Upload] = [:]
        var count = 0

        mutating func put(_ key: String, _ data: Data, _ metadata: [String: String] = [:]) -> Object {
            // Equal contents have equal ETags, as at S3.
            let hash = data.reduce(UInt64(14_695_981_039_346_656_037)) { ($0 ^ UInt64($1)) &* 1_099_511_628_211 }
            let object = Object(data: data, metadata: metadata, etag: "\"\(hash)\"")
            objects[key] = object
            return object
        }
    }

    /// Conditions that the server ignores.
    struct Ignored: OptionSet, Sendable {
        var rawValue: Int
        static let plain = Ignored(rawValue: 1)
        static let multipart = Ignored(rawValue: 2)
        static let ranges = Ignored(rawValue: 4)
    }

    private struct State {
        var content = Content()
        var faults: [(method: String, suffix: String, fault: Fault)] = []
        var requests: [Request] = []
        var failures: [String: String] = [:]
        var random: RandomFaults?
    }

    private let state = Mutex(State())
    let ignored: Ignored
    private let server = Mutex<LoopbackHTTP?>(nil)

    init(ignoring ignored: Ignored = []) throws {
        self.ignored = ignored
        let server = try LoopbackHTTP { [weak self] in self?.answer($0) ?? Answer(isLost: true) }
        self.server.withLock { $0 = server }
    }

    /// A store in the server, with short parts.
    func store(_ change: (inout S3FileStore.Configuration) -> Void = { _ in }) throws -> S3FileStore {
        var configuration = S3FileStore.Configuration(
            bucket: "b", region: "r", credentials: .values(S3Credentials(accessKeyID: "id", secretAccessKey: "secret")),
            endpoint: server.withLock { $0?.endpoint })
        configuration.partSizeInBytes = 1_000
        configuration.checksHierarchy = false
        configuration.deadline = .seconds(120)
        change(&configuration)
        return try S3FileStore(configuration)
    }

    /// Lets the next request with a method, whose path and query end in a text (contain it, after `~`), meet a
    /// fault; several faults one after the other.
    func next(_ method: String, _ suffix: String, _ faults: Fault...) {
        state.withLock { $0.faults += faults.map { (method, suffix, $0) } }
    }

    /// Lets the deletion of an object in a batch fail once with a code.
    func failDeletion(of object: String, _ code: String) { state.withLock { $0.failures[object] = code } }

    var content: Content { state.withLock { $0.content } }

    var requests: [Request] { state.withLock { $0.requests } }

    /// The objects but for those of the store itself.
    var objects: [String: Data] {
        content.objects.filter { !$0.key.contains("#tmp-s3") }.mapValues(\.data)
    }

    /// The objects of the store itself.
    var ownObjects: [String] { content.objects.keys.filter { $0.contains("#tmp-s3") } }

    func count(_ method: String, _ suffix: String) -> Int {
        requests.filter { $0.method == method && $0.target.hasSuffix(suffix) }.count
    }

    /// Lets requests meet faults at random, instead of recording them; nil for no more.
    func meet(_ faults: RandomFaults?) { state.withLock { $0.random = faults } }

    /// The faults that requests have met at random.
    var random: RandomFaults? { state.withLock { $0.random } }

    func change(_ body: (inout Content) -> Void) { state.withLock { body(&$0.content) } }

    // MARK: Answers

    private func answer(_ request: Request) -> Answer {
        let fault = state.withLock { state -> Fault? in
            if var random = state.random {
                defer { state.random = random }
                return random.next(request)
            }
            state.requests.append(request)
            let index = state.faults.firstIndex {
                $0.method == request.method
                    && ($0.suffix.hasPrefix("~")
                        ? request.target.contains($0.suffix.dropFirst()) : request.target.hasSuffix($0.suffix))
            }
            return index.map { state.faults.remove(at: $0).fault }
        }
        switch fault {
        case .fails(let status, let code, let headers):
            return .error(status, code, headers)
        case .losesRequest: return Answer(isLost: true)
        case .after(let change): self.change(change)
        default: break
        }
        var answer = perform(request)
        switch fault {
        case .losesAnswer: answer.isLost = true
        case .repeats: answer = perform(request)
        case .cutsBody: answer.cutAfter = answer.body.count / 2
        case .isLate(let delay): answer.delay = delay
        case .damages where !answer.body.isEmpty: answer.body[answer.body.startIndex] ^= 1
        case .shortens:
            answer.body = answer.body.dropLast()
            answer.headers["Content-Length"] = nil
        case .hidesAnswer(let code): answer = .error(200, code)
        case .before(let change): self.change(change)
        default: break
        }
        return answer
    }

    private func perform(_ request: Request) -> Answer {
        state.withLock { state in
            let key = String(request.path.dropFirst("/b/".count))
            let metadata = request.headers.filter { $0.key.hasPrefix("x-amz-meta-") }
            if request.query["uploads"] != nil, request.method == "GET" { return uploads(request, state.content) }
            if request.query["uploads"] != nil {
                state.content.count += 1
                let id = "upload\(state.content.count)"
                state.content.uploads[id] = Upload(key: key, metadata: metadata)
                return .xml("<R><UploadId>\(id)</UploadId></R>")
            }
            if let id = request.query["uploadId"] { return multipart(request, key, id, &state.content) }
            if request.query["list-type"] != nil { return list(request, &state) }
            if request.query["delete"] != nil { return delete(request, &state) }
            let object = state.content.objects[key]
            switch request.method {
            case "PUT":
                if !ignored.contains(.plain), let refusal = refusal(request, object) { return refusal }
                return Answer(headers: ["ETag": state.content.put(key, request.body, metadata).etag])
            case "GET", "HEAD":
                guard let object else { return .error(404, request.method == "GET" ? "NoSuchKey" : nil) }
                return get(request, object)
            case "DELETE":
                state.content.objects[key] = nil
                return Answer(status: 204)
            default: return .error(400, "BadRequest")
            }
        }
    }

    func refusal(_ request: Request, _ object: Object?) -> Answer? {
        if request.headers["if-none-match"] == "*", object != nil { return .error(412, "PreconditionFailed") }
        guard let etag = request.headers["if-match"] else { return nil }
        guard let object else { return .error(404, "NoSuchKey") }
        return object.etag == etag ? nil : .error(412, "PreconditionFailed")
    }

    private func get(_ request: Request, _ object: Object) -> Answer {
        if let etag = request.headers["if-match"], etag != object.etag { return .error(412, "PreconditionFailed") }
        let date = DateFormatter()
        date.locale = Locale(identifier: "en_US_POSIX")
        date.timeZone = .gmt
        date.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        var headers = object.metadata
        headers["ETag"] = object.etag
        headers["Last-Modified"] = date.string(from: object.modified)
        guard let range = request.headers["range"], !ignored.contains(.ranges) else {
            headers["Content-Length"] = String(object.data.count)
            return Answer(headers: headers, body: object.data)
        }
        let bounds = range.dropFirst("bytes=".count).split(separator: "-").compactMap { Int($0) }
        guard bounds.count == 2, bounds[0] < object.data.count else { return .error(416, "InvalidRange") }
        let end = min(bounds[1] + 1, object.data.count)
        headers["Content-Range"] = "bytes \(bounds[0])-\(end - 1)/\(object.data.count)"
        return Answer(status: 206, headers: headers, body: Data(object.data[bounds[0]..<end]))
    }

    private func list(_ request: Request, _ state: inout State) -> Answer {
        let prefix = request.query["prefix"] ?? ""
        let limit = min(1_000, request.query["max-keys"].flatMap(Int.init) ?? 1_000)
        let after = request.query["continuation-token"] ?? ""
        let keys = state.content.objects.keys.filter { $0.hasPrefix(prefix) && $0 > after }.sorted()
        var text = "<ListBucketResult><IsTruncated>\(keys.count > limit)</IsTruncated>"
        for key in keys.prefix(limit) {
            guard let object = state.content.objects[key] else { continue }
            let time = ISO8601DateFormatter().string(from: object.modified)
            text +=
                "<Contents><Key>\(key)</Key><Size>\(object.data.count)</Size><LastModified>\(time)</LastModified></Contents>"
        }
        if keys.count > limit { text += "<NextContinuationToken>\(keys[limit - 1])</NextContinuationToken>" }
        return .xml(text + "</ListBucketResult>")
    }

    private func delete(_ request: Request, _ state: inout State) -> Answer {
        var text = "<DeleteResult>"
        let body = String(decoding: request.body, as: UTF8.self)
        let keys = body.components(separatedBy: "<Key>").dropFirst().compactMap {
            $0.components(separatedBy: "</Key>").first
        }
        guard keys.count <= 1_000 else { return .error(400, "MalformedXML") }
        for key in keys {
            if let code = state.failures.removeValue(forKey: key) {
                text += "<Error><Key>\(key)</Key><Code>\(code)</Code></Error>"
            } else {
                state.content.objects[key] = nil
            }
        }
        return .xml(text + "</DeleteResult>")
    }
}

extension LoopbackHTTP.Request {
    /// The path and the names in the query, in their order.
    var target: String {
        query.isEmpty ? path : "\(path)?\(query.keys.filter { $0 != "encoding-type" }.sorted().joined(separator: "&"))"
    }
}

extension LoopbackHTTP.Answer {
    static func xml(_ text: String) -> Self { Self(body: Data(text.utf8)) }

    static func error(_ status: Int, _ code: String?, _ headers: [String: String] = [:]) -> Self {
        Self(
            status: status, headers: headers, body: Data((code.map { "<Error><Code>\($0)</Code></Error>" } ?? "").utf8))
    }
}

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
