import ForgeFileSystem
import ForgeKVStore
import Measuring

/// Eight threads that store values and wait for the device, compared with one that does all the work.
struct WritersTogether {
    private let workspace: Workspace
    private let samples = Samples<String>(400)

    private static let threads = 8
    private static let runs = 7

    init(_ workspace: Workspace) { self.workspace = workspace }

    /// The line and its peers, each compared with one thread of its own kind.
    func line() throws -> GoalLine {
        let store = try FileKVStore(at: workspace.place("writers"))
        let samples = samples
        let (one, all) = try measure("FileKVStore") { index, value in
            try store.set(samples.keys[index], value: value, durability: .full)
        }
        try check("FileKVStore", samples.names, samples.others) { try store.read(KVKey<String>($0)) }
        var peers = [GoalLine.Peer("one thread", .nanoseconds(one.median))]
        #if canImport(CLMDB)
        nonisolated(unsafe) let lmdb = try LMDBStore(try workspace.directory("lmdb-writers"), .durable)
        let (oneOfLMDB, allOfLMDB) = try measure("LMDB as it comes") { index, value in
            try lmdb.set(samples.names[index], value)
        }
        try check("LMDB", samples.names, samples.others) { try lmdb.get($0, as: String.self) }
        let ratio = oneOfLMDB.median / allOfLMDB.median
        peers.append(GoalLine.Peer("LMDB as it comes", .nanoseconds(allOfLMDB.median), ratio: ratio))
        #endif
        return GoalLine(
            "set String, durable, 8 threads: throughput", .ratioAtLeast(4), all, ratio: one.median / all.median,
            peers: peers)
    }

    /// The time per call in one thread and in all, interleaved.
    private func measure(
        _ name: String, _ set: @escaping @Sendable (Int, String) throws -> Void
    ) throws -> (one: Measurement, all: Measurement) {
        let samples = samples
        let count = samples.keys.count
        let share = count / Self.threads
        var one: [Double] = []
        var all: [Double] = []
        for run in 0...Self.runs {
            let alone = try nanoseconds(inThreads: 1) { _ in
                for index in 0..<count { try set(index, samples.values[index]) }
            }
            let together = try nanoseconds(inThreads: Self.threads) { thread in
                for index in (thread * share)..<((thread + 1) * share) { try set(index, samples.others[index]) }
            }
            guard run > 0 else { continue }
            one.append(alone / Double(count))
            all.append(together / Double(count))
        }
        return (Measurement(name, nanoseconds: one), Measurement(name, nanoseconds: all))
    }
}
