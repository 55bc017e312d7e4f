import EtcdServers
import ForgeEtcd
import ForgeKVStore
import Foundation
import NIOCore

#if canImport(Glibc)
import Glibc
#endif

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
