import ForgeKVStore
import Measuring

/// Stores 1,000 values in one batch, durable against a kill.
struct Batches<Value: Sample> {
    private let workspace: Workspace
    private let samples = Samples<Value>(1_000)
    private let contest = Contest()

    init(_ workspace: Workspace) { self.workspace = workspace }

    /// The line and its peers.
    func line() throws -> GoalLine {
        let name = "batch-\(Value.title)"
        let store = try FileKVStore(at: workspace.place(name))
        let samples = samples
        let batches = 20
        contest.add("FileKVStore", count: batches * samples.keys.count) {
            for number in 0..<batches {
                let values = samples.values(ofRound: number)
                try store.batch { batch in
                    for (index, key) in samples.keys.enumerated() { try batch.set(key, value: values[index]) }
                }
            }
        }
        var checks: [() throws -> Void] = []
        #if canImport(CLMDB)
        let mapped = try LMDBStore(try workspace.directory("lmdb-mapped-\(name)"), .mapped)
        checks.append(add("LMDB, NOSYNC, WRITEMAP, MAPASYNC", mapped))
        let kept = try LMDBStore(try workspace.directory("lmdb-kept-\(name)"), .kept)
        checks.append(add("LMDB, NOSYNC", kept))
        #endif
        #if canImport(CSQLite) || canImport(SQLite3)
        let sqlite = try SQLiteStore(workspace.file("sqlite-\(name)"), .normal)
        checks.append(add("SQLite, WAL, synchronous NORMAL", sqlite))
        #endif
        let measured = try contest.run(runs: 9)
        try check("FileKVStore", samples.names, samples.others) { try store.read(KVKey<Value>($0)) }
        for check in checks { try check() }
        return GoalLine(
            "batch of 1000 \(Value.title), each", .atMost(.nanoseconds(600)), measured[0],
            peers: measured[1...].map { GoalLine.Peer($0, reference: nil) })
    }

    private func add<Store: Peer>(_ name: String, _ store: Store) -> () throws -> Void {
        let samples = samples
        let batches = 4
        contest.add(name, count: batches * samples.names.count) {
            for number in 0..<batches {
                try store.setTogether(samples.names, samples.values(ofRound: number))
            }
        }
        return { try check(name, samples.names, samples.others) { try store.get($0, as: Value.self) } }
    }
}
