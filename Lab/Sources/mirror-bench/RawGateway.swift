import AsyncHTTPClient
import EtcdServers
import Foundation
import NIOCore
import NIOHTTP1

/// Plain requests to etcd's gateway, as a program without a store would make them.
final class RawGateway: Sendable {
    private let endpoint: String
    private let client: HTTPClient

    init(_ server: EtcdServer) {
        endpoint = server.endpoint
        client = HTTPClient(eventLoopGroupProvider: .singleton)
    }

    func close() async throws { try await client.shutdown() }

    func post(_ path: String, _ json: String) async throws -> HTTPClientResponse {
        var request = HTTPClientRequest(url: endpoint + path)
        request.method = .POST
        request.body = .bytes(ByteBuffer(string: json))
        return try await client.execute(request, timeout: .minutes(10))
    }

    struct Range: Decodable {
        struct Entry: Decodable {
            var key: Data
            var value: Data?
        }

        var kvs: [Entry]
    }

    private static func base64(_ text: String) -> String { Data(text.utf8).base64EncodedString() }

    private static let limits = #""key":"\#(base64("mirror-bench/"))","range_end":"\#(base64("mirror-bench0"))""#

    /// All values in one answer.
    func range() async throws -> ByteBuffer {
        try await post("/v3/kv/range", "{\(Self.limits)}").body.collect(upTo: 1 << 30)
    }

    /// The lines of a watch.
    func watch() async throws -> AsyncThrowingStream<String, any Error> {
        let body = try await post("/v3/watch", #"{"create_request":{\#(Self.limits)}}"#).body
        let (lines, output) = AsyncThrowingStream.makeStream(of: String.self)
        let task = Task {
            do {
                var rest = ""
                for try await chunk in body {
                    rest += String(buffer: chunk)
                    while let end = rest.firstIndex(of: "\n") {
                        output.yield(String(rest[..<end]))
                        rest.removeSubrange(...end)
                    }
                }
                output.finish()
            } catch {
                output.finish(throwing: error)
            }
        }
        output.onTermination = { _ in task.cancel() }
        return lines
    }
}
