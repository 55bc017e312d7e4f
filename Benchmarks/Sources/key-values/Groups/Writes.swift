import ForgeKVStore
import Foundation
import Measuring

/// Stores values of 1,000 keys repeatedly, durable against a kill; includes compactions.
struct Writes<Value: Sample> {
    private let workspace: Workspace
    private let samples = Samples<Value>(1_000)
    private let contest = Contest()

    init(_ workspace: Workspace) { self.workspace = workspace }

    /// The line and its peers; the reference is `write(2)` of 64 bytes. Shows MMKV's figure from another machine, if
    /// known.
    func line(_ goal: GoalLine.Goal, elsewhere nanoseconds: Double? = nil) throws -> GoalLine {
        let name = "set-\(Value.title)"
        let file = try PlainFile(workspace.file("plain-\(name)"))
        contest.add("write(2) of 64 bytes", count: 100_000) { try file.write(100_000) }
        let store = try FileKVStore(at: workspace.place(name))
        addFileKVStore(store)
        let checks = try addPeers(name)
        let measured = try contest.run(runs: 9)
        try check("FileKVStore", samples.names, samples.others) { try store.read(KVKey<Value>($0)) }
        for check in checks { try check() }
        var peers = ([measured[0]] + measured[2...]).map { GoalLine.Peer($0, reference: measured[0]) }
        if let nanoseconds { peers.append(GoalLine.Peer("MMKV \(Peers.elsewhere)", .nanoseconds(nanoseconds))) }
        return GoalLine("set \(Value.title), kill-safe", goal, measured[1], reference: measured[0], peers: peers)
    }

    private func addFileKVStore(_ store: FileKVStore) {
        let samples = samples
        let rounds = 100
        contest.add("FileKVStore", count: rounds * samples.keys.count) {
            for round in 0..<rounds {
                let values = samples.values(ofRound: round)
                for (index, key) in samples.keys.enumerated() { try store.set(key, value: values[index]) }
            }
        }
    }

    /// Adds all peers; returns their verifications.
    private func addPeers(_ name: String) throws -> [() throws -> Void] {
        var checks = [add("[String: any Sendable] and Mutex, lost", DictionaryStore(), 1_000, rounds: 100)]
        #if canImport(CLMDB)
        let mapped = try LMDBStore(try workspace.directory("lmdb-mapped-\(name)"), .mapped)
        checks.append(add("LMDB, NOSYNC, WRITEMAP, MAPASYNC", mapped, 1_000, rounds: 20))
        let kept = try LMDBStore(try workspace.directory("lmdb-kept-\(name)"), .kept)
        checks.append(add("LMDB, NOSYNC", kept, 1_000, rounds: 10))
        let durable = try LMDBStore(try workspace.directory("lmdb-durable-\(name)"), .durable)
        checks.append(add("LMDB as it comes: a flush each", durable, 50, rounds: 2))
        #endif
        #if canImport(CSQLite) || canImport(SQLite3)
        let sqlite = try SQLiteStore(workspace.file("sqlite-\(name)"), .normal)
        checks.append(add("SQLite, WAL, synchronous NORMAL", sqlite, 1_000, rounds: 4))
        #endif
        let defaults = try DefaultsStore(suite: workspace.suite(name))
        let check = add("UserDefaults, not synchronized", defaults, 500, rounds: 2)
        checks.append {
            try check()
            try defaults.discard()
        }
        return checks
    }

    private func add<Store: Peer>(
        _ name: String, _ store: Store, _ count: Int, rounds: Int
    ) -> () throws -> Void {
        let names = Array(samples.names.prefix(count))
        let samples = samples
        contest.add(name, count: rounds * count) {
            for round in 0..<rounds {
                let values = samples.values(ofRound: round)
                for (index, key) in names.enumerated() { try store.set(key, values[index]) }
            }
        }
        return { try check(name, names, samples.others) { try store.get($0, as: Value.self) } }
    }
}
