import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1

/// The plainest correct client of etcd's JSON gateway: one request of the HTTP library for each call, the answer
/// decoded.
struct RawEtcd: Sendable {
    private struct KeyValue: Codable {
        var key: Data
        var value: Data?
    }

    private struct Range: Codable {
        var kvs: [KeyValue]?
    }

    private struct Header: Codable {
        var revision: String
    }

    private struct Put: Codable {
        var header: Header
    }

    struct Failed: Error {
        var status: UInt
    }

    let endpoint: String
    let client: HTTPClient

    func get(_ name: String) async throws -> Data? {
        let answer: Range = try await post("/v3/kv/range", KeyValue(key: Data(name.utf8)))
        return answer.kvs?.first?.value
    }

    func set(_ name: String, _ value: Data) async throws {
        let _: Put = try await post("/v3/kv/put", KeyValue(key: Data(name.utf8), value: value))
    }

    private func post<Answer: Decodable>(_ path: String, _ body: some Encodable) async throws -> Answer {
        var request = HTTPClientRequest(url: endpoint + path)
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        request.body = .bytes(try JSONEncoder().encode(body))
        let response = try await client.execute(request, timeout: .seconds(5))
        let bytes = try await response.body.collect(upTo: 1 << 20)
        guard response.status == .ok else { throw Failed(status: response.status.code) }
        return try JSONDecoder().decode(Answer.self, from: Data(bytes.readableBytesView))
    }
}
