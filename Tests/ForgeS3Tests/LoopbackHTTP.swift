#if S3
import Foundation
import ServerTestSupport
import Synchronization

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
