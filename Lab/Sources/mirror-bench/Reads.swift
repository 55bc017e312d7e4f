import EtcdServers
import ForgeEtcd
import ForgeKVStore
import Foundation

/// Reads of a mirror beside those of a store on disk.
enum Reads {
    private static let rounds = 15
    private static let reads = 1_000_000

    static func measure(_ content: SampleContent, _ server: EtcdServer, _ table: inout GoalTable) async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "forge-bench-\(UUID().uuidString)")
        defer { do { try FileManager.default.removeItem(at: directory) } catch {} }
        let file = try FileKVStore(at: directory)
        try content.fill(file)
        let store = try EtcdKVStore(content.configuration(server))
        let mirror = try MirroredKVStore(store)
        try await mirror.wait(upTo: .seconds(600))
        // The same keys in another order than that of the insertion.
        var generator = SystemRandomNumberGenerator()
        let keys = (0..<1_000).map { _ in content.key(Int.random(in: 0..<content.count, using: &generator)) }
        var times: (own: [Double], file: [Double]) = ([], [])
        // The first round decodes the values.
        for round in 0...rounds {
            let file = time(keys) { file.get($0) }
            let own = time(keys) { mirror.get($0) }
            if round > 0 {
                times.own.append(own)
                times.file.append(file)
            }
        }
        let (own, other) = (times.own.quantile(), times.file.quantile())
        table.add("get / FileKVStore.get", own.nanoseconds, other.nanoseconds, ratio: own / other, goal: 1.2)
        try await mirror.close()
        await store.close()
        try file.close()
    }

    /// The seconds of a read.
    @inline(never)
    private static func time(_ keys: [KVKey<String>], _ get: (KVKey<String>) -> String?) -> Double {
        let start = ContinuousClock.now
        var sum = 0
        for index in 0..<reads { sum &+= get(keys[index % keys.count])?.utf8.count ?? 0 }
        precondition(sum > 0)
        return (ContinuousClock.now - start).seconds / Double(reads)
    }
}
