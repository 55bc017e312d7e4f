import AsyncHTTPClient
import EtcdServers
import ForgeEtcd
import ForgeKVStore
import Foundation
import NIOCore
import NIOHTTP1

#if canImport(Glibc)
import Glibc
#endif

/// Measures a mirror of a store in etcd beside the plainest program that does the same.
///
/// usage: mirror-bench [KEYS] [CHANGES]
@main
struct MirrorBench {
    static func main() async throws {
        let numbers = CommandLine.arguments.dropFirst().compactMap { Int($0) }
        guard numbers.count == CommandLine.arguments.count - 1, numbers.count <= 2, numbers.allSatisfy({ $0 >= 100 })
        else {
            print("usage: mirror-bench [KEYS] [CHANGES], at least 100 each")
            exit(2)
        }
        guard EtcdServer.isInstalled else { exit(1) }
        let content = SampleContent(count: numbers.first ?? 100_000)
        let server = try await EtcdServer.started()
        try await content.fill(try EtcdKVStore(content.configuration(server)))
        var table = GoalTable()
        table.show("\(content.count) keys of \(try content.sizePerKey) bytes with their values")
        try await Beginning.measure(content, server, &table)
        try await Reads.measure(content, server, &table)
        try await Delivery.measure(numbers.dropFirst().first ?? 1_000, server, &table)
        exit(table.isMet ? 0 : 1)
    }
}

/// The start of a mirror, and its memory.
enum Beginning {
    static func measure(_ content: SampleContent, _ server: EtcdServer, _ table: inout GoalTable) async throws {
        let raw = RawGateway(server)
        let store = try EtcdKVStore(content.configuration(server))
        // The clients' own memory and the server's caches.
        _ = try await store.entries(prefix: "", after: nil, limit: 500, at: nil)
        _ = try await raw.range()
        let (mirror, bytes) = try await memory(of: store)
        guard try mirror.keys().count == content.count else { throw Incomplete() }
        let perKey = Double(bytes) / Double(content.count) - Double(try content.sizePerKey)
        table.add(
            "memory of a key over key and value", String(format: "%.0f bytes", perKey), "250 bytes",
            ratio: perKey / 250, goal: 1)
        try await mirror.close()
        var times: (raw: [Double], decoded: [Double], mirror: [Double]) = ([], [], [])
        for _ in 0..<5 {
            let start = ContinuousClock.now
            let answer = try await raw.range()
            times.raw.append((.now - start).seconds)
            guard
                try JSONDecoder().decode(RawGateway.Range.self, from: Data(answer.readableBytesView)).kvs.count
                    == content.count
            else { throw Incomplete() }
            times.decoded.append((.now - start).seconds)
            let begin = ContinuousClock.now
            let mirror = try MirroredKVStore(store)
            try await mirror.wait(upTo: .seconds(600))
            times.mirror.append((.now - begin).seconds)
            try await mirror.close()
        }
        let (own, decoded, bytesOnly) = (times.mirror.quantile(), times.decoded.quantile(), times.raw.quantile())
        table.add(
            "start / one raw range request, decoded", own.milliseconds, decoded.milliseconds, ratio: own / decoded,
            goal: 1.3)
        table.add("start / its bytes alone", own.milliseconds, bytesOnly.milliseconds, ratio: own / bytesOnly)
        await store.close()
        try await raw.close()
    }

    struct Incomplete: Error {}

    /// A mirror that has caught up, and the memory that it takes.
    private static func memory(of store: EtcdKVStore) async throws -> (MirroredKVStore, Int) {
        let before = residentMemory()
        let mirror = try MirroredKVStore(store)
        try await mirror.wait(upTo: .seconds(600))
        return (mirror, residentMemory() - before)
    }

    /// The resident memory of the process without freed memory that its allocator keeps; 0 if unknown.
    private static func residentMemory() -> Int {
        #if canImport(Glibc)
        // The module has no malloc.h.
        typealias Trim = @convention(c) (Int) -> Int32
        if let symbol = dlsym(nil, "malloc_trim") { _ = unsafeBitCast(symbol, to: Trim.self)(0) }
        #endif
        guard let text = FileManager.default.contents(atPath: "/proc/self/statm") else { return 0 }
        let pages = String(decoding: text, as: UTF8.self).split(separator: " ").dropFirst().first.flatMap { Int($0) }
        return (pages ?? 0) * Int(sysconf(Int32(_SC_PAGESIZE)))
    }
}

/// Prints measurements beside their references.
struct GoalTable {
    /// Whether all goals so far are met.
    private(set) var isMet = true

    init() {
        show(Self.row("", "measured", "reference", "ratio", "goal", ""))
    }

    /// Prints a figure with a goal.
    mutating func add(_ name: String, _ figure: String, _ reference: String, ratio: Double, goal: Double) {
        let verdict = ratio <= goal ? "met" : "MISSED"
        if ratio > goal { isMet = false }
        show(Self.row(name, figure, reference, Self.text(ratio), "<= \(Self.text(goal))", verdict))
    }

    /// Prints a figure without a goal.
    func add(_ name: String, _ figure: String, _ reference: String = "", ratio: Double? = nil) {
        show(Self.row(name, figure, reference, ratio.map { Self.text($0) } ?? "", "", ""))
    }

    /// Prints a line at once, also into a file.
    func show(_ line: String) {
        print(line)
        fflush(nil)
    }

    private static func text(_ number: Double) -> String { String(format: "%.2f", number) }

    private static func row(_ cells: String...) -> String {
        let widths = [52, 12, 12, 8, 10, 8]
        return zip(cells, widths).enumerated().map { index, cell in
            let padding = String(repeating: " ", count: max(0, cell.1 - cell.0.count))
            return index == 0 ? cell.0 + padding : padding + cell.0
        }.joined(separator: " ")
    }
}

extension Double {
    /// The number as milliseconds.
    var milliseconds: String { String(format: "%.2f ms", self * 1_000) }

    /// The number as nanoseconds.
    var nanoseconds: String { String(format: "%.1f ns", self * 1e9) }
}

extension Duration {
    var seconds: Double { self / .seconds(1) }
}

extension [Double] {
    /// The value in the middle, or after a part of the sorted values.
    func quantile(_ part: Double = 0.5) -> Double { sorted()[Swift.min(count - 1, Int(Double(count) * part))] }
}

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
