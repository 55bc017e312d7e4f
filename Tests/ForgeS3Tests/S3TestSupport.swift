#if S3
import ForgeFileStore
import Foundation
import NIOCore
import S3Servers
import ServerTestSupport
import Synchronization
import Testing
@testable import ForgeS3

/// The server of the tests that need a whole one: that of the environment, or moto.
enum S3TestServer {
    struct NotOnLoopback: Error {}

    private static let variables = ProcessInfo.processInfo.environment

    /// The server that a script has started.
    private static let endpoint = variables["FORGE_S3_ENDPOINT"]

    /// Whether it is moto; otherwise it is radosgw, as the script starts it.
    private static let isMoto = endpoint == nil

    /// Whether it keeps `If-None-Match` at the end of an upload in parts. radosgw ignores it.
    static let createsPartsExclusively = isMoto

    /// Whether it keeps `If-Match` of a plain save. radosgw compares the quotes too, and refuses every ETag.
    static let replacesConditionally = isMoto

    /// Whether the tests can run.
    static let isAvailable = !isMoto || MotoServer.isInstalled

    /// A configuration with a bucket of its own, which is created.
    static func configuration() async throws -> S3FileStore.Configuration {
        guard let endpoint else { return try await MotoServer.shared().configuration() }
        guard endpoint.hasPrefix("http://127.0.0.1:") else { throw NotOnLoopback() }
        var configuration = S3FileStore.Configuration(
            bucket: "test-\(UUID().uuidString.lowercased())", region: "us-east-1",
            credentials: .environment(variables), endpoint: endpoint)
        configuration.deadline = .seconds(180)
        try await configuration.createBucket()
        return configuration
    }
}

extension S3FileStore.Configuration {
    func createBucket() async throws {
        let transport = try S3Transport(self)
        _ = try await transport.send(S3Request(name: "CreateBucket", method: "PUT"))
    }
}

extension MotoServer {
    /// A configuration with a bucket of its own, which is created.
    func configuration() async throws -> S3FileStore.Configuration {
        var configuration = S3FileStore.Configuration(
            bucket: "test-\(UUID().uuidString.lowercased())", region: "us-east-1", credentials: .values(credentials),
            endpoint: endpoint)
        // Enough time for a busy machine.
        configuration.deadline = .seconds(180)
        try await configuration.createBucket()
        return configuration
    }
}

extension S3FileStore {
    /// A store in a bucket of its own.
    static func test(_ change: (inout Configuration) -> Void = { _ in }) async throws -> S3FileStore {
        var configuration = try await S3TestServer.configuration()
        change(&configuration)
        return try S3FileStore(configuration)
    }

    /// All objects of the bucket.
    func objects() async throws -> [String] {
        try await page(S3ListRequest(prefix: "", isFlat: true), .list, "").entries.map(\.object)
    }

    /// Stores an object as another program does.
    func put(_ object: String, _ content: String = "x", headers: [(String, String)] = []) async throws {
        _ = try await transport.send(
            S3Request(
                name: "PutObject", method: "PUT", object: object, headers: headers, body: ByteBuffer(string: content)))
    }

    /// The number of uploads that were begun and not ended.
    func uploadCount() async throws -> Int {
        let request = S3Request(name: "ListMultipartUploads", query: [("uploads", "")])
        return try await transport.send(request).document().all("Upload").count
    }
}

/// Expects a failure with a code.
@discardableResult
func expectFailure<Success>(
    _ code: FileStoreError.Code, sourceLocation: SourceLocation = #_sourceLocation,
    _ body: () async throws -> Success
) async -> FileStoreError? {
    do {
        _ = try await body()
        Issue.record("it has succeeded", sourceLocation: sourceLocation)
    } catch let error as FileStoreError {
        #expect(error.code == code, "\(error)", sourceLocation: sourceLocation)
        return error
    } catch {
        Issue.record("it has thrown \(error)", sourceLocation: sourceLocation)
    }
    return nil
}

/// Bytes that differ at every place.
func pattern(_ count: Int, seed: UInt8 = 0) -> Data {
    Data((0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) ^ seed })
}

/// A small server of HTTP/1.1 on loopback, whose handler answers every request on a thread of its connection.
final class LoopbackHTTP: Sendable {
    struct Request: Sendable {
        var method: String
        var path: String
        var query: [String: String]
        var headers: [String: String]
        var body: Data
    }

    struct Answer: Sendable {
        var status = 200
        var headers: [String: String] = [:]
        var body = Data()

        /// The number of bytes of the body that are sent before the connection is closed; nil for all.
        var cutAfter: Int?

        /// Whether the connection is closed instead of answering.
        var isLost = false

        /// Whether the answer says how long its body is.
        var hasLength = true

        /// How long the answer takes.
        var delay = Duration.zero
    }

    private let listener: LoopbackListener

    var port: UInt16 { listener.port }
    var endpoint: String { "http://127.0.0.1:\(port)" }

    init(_ handler: @escaping @Sendable (Request) -> Answer) throws {
        listener = try LoopbackListener { client in
            Thread.detachNewThread {
                Self.serve(client, handler)
                close(client)
            }
        }
    }

    private static func serve(_ client: Int32, _ handler: (Request) -> Answer) {
        var bytes = Data()
        while let request = request(client, &bytes) {
            let answer = handler(request)
            if answer.delay > .zero { usleep(UInt32(answer.delay / .microseconds(1))) }
            guard !answer.isLost else { return }
            var head = "HTTP/1.1 \(answer.status) -\r\n"
            var headers = answer.headers
            let length = headers["Content-Length"] ?? String(answer.body.count)
            headers["Content-Length"] = answer.hasLength ? length : nil
            for (name, value) in headers { head += "\(name): \(value)\r\n" }
            let body = request.method == "HEAD" ? Data() : answer.body
            let sent = Data((head + "\r\n").utf8) + body.prefix(answer.cutAfter ?? body.count)
            guard write(sent, to: client), answer.cutAfter == nil else { return }
        }
    }

    private static func request(_ client: Int32, _ bytes: inout Data) -> Request? {
        let end = Data("\r\n\r\n".utf8)
        while bytes.range(of: end) == nil { guard read(client, &bytes) else { return nil } }
        guard let range = bytes.range(of: end) else { return nil }
        let lines = String(decoding: bytes[..<range.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
        bytes = Data(bytes[range.upperBound...])
        let words = lines[0].split(separator: " ")
        guard words.count == 3 else { return nil }
        var headers: [String: String] = [:]
        for line in lines.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            headers[parts[0].lowercased()] = parts.count > 1 ? parts[1].trimmingCharacters(in: .whitespaces) : ""
        }
        let length = headers["content-length"].flatMap(Int.init) ?? 0
        while bytes.count < length { guard read(client, &bytes) else { return nil } }
        let body = Data(bytes.prefix(length))
        bytes = Data(bytes.dropFirst(length))
        let target = words[1].split(separator: "?", maxSplits: 1)
        var query: [String: String] = [:]
        for pair in target.dropFirst().first?.split(separator: "&") ?? [] {
            let parts = pair.split(separator: "=", maxSplits: 1).map { String($0).removingPercentEncoding ?? "" }
            query[parts[0]] = parts.count > 1 ? parts[1] : ""
        }
        return Request(
            method: String(words[0]), path: String(target[0]).removingPercentEncoding ?? "", query: query,
            headers: headers, body: body)
    }

    private static func read(_ client: Int32, _ bytes: inout Data) -> Bool {
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        let count = recv(client, &buffer, buffer.count, 0)
        guard count > 0 else { return false }
        bytes += buffer[..<count]
        return true
    }

    private static func write(_ bytes: Data, to client: Int32) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { send(client, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }
}
#endif
