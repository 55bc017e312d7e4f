import AsyncHTTPClient
import EtcdServers
import ForgeEtcd
import ForgeKVStore
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

/// The values of a measurement.
struct SampleContent: Sendable {
    let count: Int
    static let prefix = "mirror-bench/"

    func name(_ index: Int) -> String { String(format: "session/%08d", index) }

    func value(_ index: Int) -> String { String(repeating: "v", count: 90) + String(format: "%010d", index) }

    func key(_ index: Int) -> KVKey<String> { KVKey(name(index)) }

    /// The size of a name and its encoded value.
    var sizePerKey: Int {
        get throws {
            let store = InMemoryKVStore()
            try store.set(key(0), value: value(0))
            return try name(0).utf8.count + (store.rawValue(named: name(0))?.count ?? 0)
        }
    }

    func configuration(_ server: EtcdServer) -> EtcdKVStore.Configuration {
        var configuration = EtcdKVStore.Configuration(endpoints: [server.endpoint])
        configuration.prefix = Self.prefix
        configuration.deadline = .seconds(60)
        return configuration
    }

    /// Stores the values.
    func fill(_ store: EtcdKVStore) async throws {
        for start in stride(from: 0, to: count, by: 100) {
            var batch = KVBatch()
            for index in start..<min(start + 100, count) { try batch.set(key(index), value: value(index)) }
            try await store.commit(batch, timeToLive: nil)
        }
        await store.close()
    }

    /// Stores the values.
    func fill(_ store: FileKVStore) throws {
        for index in 0..<count { try store.set(key(index), value: value(index)) }
    }
}
