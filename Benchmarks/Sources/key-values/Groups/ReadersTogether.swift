import ForgeKVStore
import Measuring

/// Two threads that read the same 1,000 keys, compared with one that reads half as much. Each has its own key objects:
/// reference counting of shared ones would dominate.
struct ReadersTogether<Value: Sample> {
    private let workspace: Workspace
    private let samples = Samples<Value>(1_000)

    private static var rounds: Int { 300 }
    private static var runs: Int { 9 }

    init(_ workspace: Workspace) { self.workspace = workspace }

    /// The line and its peers, each compared with one thread of its own kind.
    func line() throws -> GoalLine {
        let store = try FileKVStore(at: workspace.place("readers-\(Value.title)"))
        for (key, value) in zip(samples.keys, samples.values) { try store.set(key, value: value) }
        let read = [samples.reordered(), samples.reordered()]
        try check("FileKVStore", read[0].names, read[0].values) { try store.read(KVKey<Value>($0)) }
        let rounds = Self.rounds
        let (one, two) = try measure("FileKVStore") { thread in
            for _ in 0..<rounds { for key in read[thread].keys { keep(store.get(key)) } }
        }
        let dictionary = DictionaryStore()
        dictionary.setTogether(samples.names, samples.values)
        let (oneOfDictionary, twoOfDictionary) = try measure("[String: any Sendable] and Mutex") { thread in
            for _ in 0..<rounds { for name in read[thread].names { keep(dictionary.get(name, as: Value.self)) } }
        }
        var peers = [
            GoalLine.Peer("one thread", .nanoseconds(one.median)),
            peer(oneOfDictionary, twoOfDictionary),
        ]
        let (oneOfNothing, twoOfNothing) = try measure(Spinning.title) { _ in Spinning.run(rounds * 20_000) }
        peers.append(peer(oneOfNothing, twoOfNothing))
        #if canImport(CLMDB)
        let lmdb = try LMDBStore(try workspace.directory("lmdb-readers-\(Value.title)"), .mapped)
        try lmdb.setTogether(samples.names, samples.values)
        nonisolated(unsafe) let readers = [try lmdb.makeReader(), try lmdb.makeReader()]
        let (oneOfLMDB, twoOfLMDB) = try measure("LMDB") { thread in
            for _ in 0..<rounds {
                for name in read[thread].names { keep(try readers[thread].get(name, as: Value.self)) }
            }
        }
        peers.append(peer(oneOfLMDB, twoOfLMDB))
        withExtendedLifetime(lmdb) {}
        #endif
        return GoalLine(
            "get \(Value.title), 2 threads: throughput", .ratioAtLeast(1.6), two, ratio: one.median / two.median,
            peers: peers)
    }

    private func peer(_ one: Measurement, _ two: Measurement) -> GoalLine.Peer {
        GoalLine.Peer(two.name, .nanoseconds(two.median), ratio: one.median / two.median)
    }

    /// The time per call in one thread and in both, interleaved.
    private func measure(
        _ name: String, _ body: @escaping @Sendable (Int) throws -> Void
    ) throws -> (one: Measurement, two: Measurement) {
        let count = Double(Self.rounds * samples.keys.count)
        var one: [Double] = []
        var two: [Double] = []
        for run in 0...Self.runs {
            let alone = try nanoseconds(inThreads: 1, body) / count
            let together = try nanoseconds(inThreads: 2, body) / (2 * count)
            guard run > 0 else { continue }
            one.append(alone)
            two.append(together)
        }
        return (Measurement(name, nanoseconds: one), Measurement(name, nanoseconds: two))
    }
}
