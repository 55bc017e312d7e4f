import ForgeKVStore
import Foundation
import Measuring

/// Opens a cleanly closed store of many keys and reads one of them, each time in a new process.
struct Openings {
    private let count: Int
    private let goal: Figure
    private let workspace: Workspace
    private let samples: Samples<String>

    /// Peers are measured with this many keys only: with more, some take minutes.
    private static let peerCount = 100_000

    init(count: Int, _ goal: Figure, _ workspace: Workspace) {
        self.count = count
        self.goal = goal
        self.workspace = workspace
        samples = Samples(count)
    }

    private struct Row {
        var name: String
        var total: Measurement
        var firstRead: Measurement
        var memory: Double
    }

    /// Three lines: opening and first read, the first read alone, and memory.
    func lines() throws -> [GoalLine] {
        let rows = try [fileKVStore()] + peerRows()
        func peers(_ peer: (Row) -> GoalLine.Peer) -> [GoalLine.Peer] { rows.dropFirst().map(peer) }
        let isSmall = count <= Self.peerCount
        var elsewhere = [GoalLine.Peer("MMKV \(Peers.elsewhere)", .nanoseconds(isSmall ? 29e6 : 696e6))]
        if !isSmall { elsewhere.append(GoalLine.Peer("UserDefaults \(Peers.elsewhere)", .nanoseconds(18e9))) }
        return [
            GoalLine(
                "open and read once, \(count) keys", .atMost(goal), rows[0].total,
                peers: peers { GoalLine.Peer($0.total, reference: nil) } + elsewhere),
            GoalLine(
                "of which the read, \(count) keys", .none, rows[0].firstRead,
                peers: peers { GoalLine.Peer($0.firstRead, reference: nil) }),
            GoalLine(
                "memory that it took, \(count) keys", .none, .bytes(rows[0].memory),
                peers: peers { GoalLine.Peer($0.name, .bytes($0.memory)) }),
        ]
    }

    private func fileKVStore() throws -> Row {
        let place = workspace.place("open-\(count)")
        try fill(FileKVStore(at: place))
        return try measure("FileKVStore", .forge, place.path)
    }

    /// Fills a store and closes it by releasing it.
    private func fill(_ store: FileKVStore) throws {
        for (key, value) in zip(samples.keys, samples.values) { try store.set(key, value: value) }
    }

    private func peerRows() throws -> [Row] {
        guard count <= Self.peerCount else { return [] }
        var rows: [Row] = []
        #if canImport(CLMDB)
        let directory = try workspace.directory("lmdb-open")
        try fill(try LMDBStore(directory, .mapped))
        rows.append(try measure("LMDB", .lmdb, directory))
        #endif
        #if canImport(CSQLite) || canImport(SQLite3)
        let file = workspace.file("sqlite-open")
        try fill(try SQLiteStore(file, .normal))
        rows.append(try measure("SQLite", .sqlite, file))
        #endif
        let suite = workspace.suite("open")
        let defaults = try DefaultsStore(suite: suite)
        try fill(defaults)
        try defaults.synchronize()
        rows.append(try measure("UserDefaults", .defaults, suite, runs: 3))
        try defaults.discard()
        return rows
    }

    private func fill(_ store: some Peer) throws { try store.setTogether(samples.names, samples.values) }

    private func measure(_ name: String, _ kind: Opening.Kind, _ path: String, runs: Int = 7) throws -> Row {
        var outcomes: [Opening.Outcome] = []
        for run in 0...runs {
            let outcome = try open(kind, path)
            // The first run warms up the page cache.
            if run > 0 { outcomes.append(outcome) }
        }
        return Row(
            name: name, total: Measurement(name, nanoseconds: outcomes.map { $0.opening + $0.firstRead }),
            firstRead: Measurement(name, nanoseconds: outcomes.map(\.firstRead)),
            memory: outcomes.map(\.memory).sorted()[outcomes.count / 2])
    }

    private func open(_ kind: Opening.Kind, _ path: String) throws -> Opening.Outcome {
        let line = try Child.run([Opening.argument, kind.rawValue, path, "\(count / 2)"])
        guard let outcome = Opening.Outcome(line) else {
            throw PeerFailure(library: kind.rawValue, operation: "open", code: 0)
        }
        return outcome
    }
}
