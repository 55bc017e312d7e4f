import AsyncHTTPClient
import EtcdServers
import ForgeEtcd
import ForgeKVStore
import Foundation
import NIOCore
import NIOHTTP1

/// Compares the store in etcd with raw requests of the same HTTP library to the same server.
///
/// Store and raw client take turns. The figures are medians of the rounds: microseconds a call, or calls a second.
///
/// usage: etcd-bench [CALLS] [ROUNDS]
@main
struct EtcdBench {
    static func main() async throws {
        let numbers = CommandLine.arguments.dropFirst().compactMap { Int($0) }
        let (calls, rounds) = (numbers.first ?? 1000, numbers.dropFirst().first ?? 9)
        guard EtcdServer.isInstalled else { exit(1) }
        let server = try await EtcdServer.started()
        var configuration = EtcdKVStore.Configuration(endpoints: [server.endpoint])
        configuration.prefix = "bench/"
        configuration.deadline = .seconds(60)
        let store = try EtcdKVStore(configuration)
        let client = HTTPClient(eventLoopGroupProvider: .singleton)
        let raw = RawEtcd(endpoint: server.endpoint, client: client)
        let value = String(repeating: "v", count: 100)
        let key = KVKey<String>("key")
        try await store.set(key, value: value)
        guard let bytes = try await raw.get("bench/key") else { throw CocoaError(.fileNoSuchFile) }

        print("operation            store       raw         ratio  goal")
        var isMet = true
        func compare(
            _ name: String, _ goal: Double, tasks: Int = 1, store: @escaping @Sendable (Int) async throws -> Void,
            raw: @escaping @Sendable (Int) async throws -> Void
        ) async throws {
            var times: (store: [Double], raw: [Double]) = ([], [])
            for _ in 0...rounds {
                times.store.append(try await time(calls, tasks, store))
                times.raw.append(try await time(calls, tasks, raw))
            }
            // The first round warms up connections and caches.
            let (ours, theirs) = (median(times.store.dropFirst()), median(times.raw.dropFirst()))
            let isThroughput = tasks > 1
            let ratio = isThroughput ? theirs / ours : ours / theirs
            let figures = [ours, theirs].map { isThroughput ? "\(Int(1 / $0))/s" : "\(Int($0 * 1e6)) µs" }
            let columns = [name, figures[0], figures[1], String(format: "%.2f", ratio)]
            let widths = [21, 12, 12, 7]
            let row = zip(columns, widths).map { $0.padding(toLength: $1, withPad: " ", startingAt: 0) }.joined()
            print(row + (isThroughput ? ">= " : "<= ") + "\(goal)")
            fflush(nil)
            isMet = isMet && (isThroughput ? ratio >= goal : ratio <= goal)
        }

        try await compare("get, one task", 1.15) { _ in
            _ = try await store.read(key)
        } raw: { _ in
            _ = try await raw.get("bench/key")
        }
        try await compare("set, one task", 1.15) { _ in
            try await store.set(key, value: value)
        } raw: { _ in
            try await raw.set("bench/raw", bytes)
        }
        // One write in ten calls.
        try await compare("mixed, 64 tasks", 0.9, tasks: 64) { index in
            if index % 10 == 0 {
                try await store.set(KVKey<String>("key\(index % 64)"), value: value)
            } else {
                _ = try await store.read(key)
            }
        } raw: { index in
            if index % 10 == 0 {
                try await raw.set("bench/raw\(index % 64)", bytes)
            } else {
                _ = try await raw.get("bench/key")
            }
        }
        await store.close()
        try await client.shutdown()
        exit(isMet ? 0 : 1)
    }

    /// The seconds of one call, on average.
    private static func time(
        _ calls: Int, _ tasks: Int, _ call: @escaping @Sendable (Int) async throws -> Void
    ) async throws -> Double {
        let start = ContinuousClock.now
        try await withThrowingTaskGroup { group in
            for task in 0..<tasks {
                group.addTask {
                    for index in stride(from: task, to: calls, by: tasks) { try await call(index) }
                }
            }
            try await group.waitForAll()
        }
        return (ContinuousClock.now - start) / .seconds(1) / Double(calls)
    }

    private static func median(_ times: ArraySlice<Double>) -> Double { times.sorted()[times.count / 2] }
}

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
