import ForgeFileSystem
import ForgeKVStore
import Measuring

/// Stores one value at a time and waits for the device after each.
struct DurableWrites {
    private let workspace: Workspace
    private let samples = Samples<String>(100)
    private let contest = Contest()

    private static let runs = 11

    init(_ workspace: Workspace) { self.workspace = workspace }

    /// The line and its peers; the reference is a write into preallocated space and a flush.
    func line() throws -> GoalLine {
        try addFile("pwrite, fdatasync; space reserved", isWritten: false)
        let store = try FileKVStore(at: workspace.place("durable"))
        let samples = samples
        var run = 0
        contest.add("FileKVStore", count: samples.keys.count) {
            for (key, value) in zip(samples.keys, samples.values(ofRound: run)) {
                try store.set(key, value: value, durability: .full)
            }
            run += 1
        }
        try addFile("pwrite, fdatasync; over zeros on the device", isWritten: true)
        var checks: [() throws -> Void] = []
        #if canImport(CLMDB)
        let lmdb = try LMDBStore(try workspace.directory("lmdb-durable"), .durable)
        checks.append(add("LMDB as it comes", lmdb, samples.names.count) {})
        #endif
        #if canImport(CSQLite) || canImport(SQLite3)
        let sqlite = try SQLiteStore(workspace.file("sqlite-durable"), .full)
        checks.append(add("SQLite, WAL, synchronous FULL", sqlite, samples.names.count) {})
        #endif
        let defaults = try DefaultsStore(suite: workspace.suite("durable"))
        checks.append(
            add("UserDefaults and synchronize, which flushes nothing", defaults, 10) { try defaults.synchronize() })
        let measured = try contest.run(runs: Self.runs)
        try check("FileKVStore", samples.names, samples.values(ofRound: Self.runs)) {
            try store.read(KVKey<String>($0))
        }
        for check in checks { try check() }
        try defaults.discard()
        let peers = ([measured[0]] + measured[2...]).map { GoalLine.Peer($0, reference: measured[0]) }
        return GoalLine(
            "set String, durable", .ratioAtMost(1.15), measured[1], reference: measured[0],
            peers: peers + [GoalLine.Peer("MMKV \(Peers.elsewhere)", .nanoseconds(145_000))])
    }

    private func addFile(_ name: String, isWritten: Bool) throws {
        let count = samples.names.count
        let file = try PlainFile(workspace.file(isWritten ? "plain-written" : "plain-reserved"))
        try file.reserve((Self.runs + 1) * count, isWritten: isWritten)
        var next = 0
        contest.add(name, count: count) {
            try file.writeDurably(next..<(next + count))
            next += count
        }
    }

    private func add<Store: Peer>(
        _ name: String, _ store: Store, _ count: Int, _ flush: @escaping () throws -> Void
    ) -> () throws -> Void {
        let samples = samples
        let names = samples.names.prefix(count)
        var run = 0
        contest.add(name, count: count) {
            for (name, value) in zip(names, samples.values(ofRound: run)) {
                try store.set(name, value)
                try flush()
            }
            run += 1
        }
        return { try check(name, names, samples.values(ofRound: Self.runs)) { try store.get($0, as: String.self) } }
    }
}
