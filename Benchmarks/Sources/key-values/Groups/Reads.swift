import ForgeKVStore
import Measuring

/// Reads existing keys in another order than they were stored, with distinct key objects.
struct Reads<Value: Sample> {
    private let count: Int
    private let workspace: Workspace
    private let stored: Samples<Value>
    private let read: Samples<Value>
    private let contest = Contest()

    /// The number of calls per run for fast stores, and for the others. With many keys each is read several times, so
    /// that the figure does not depend on the cache content left by the previous measurement.
    private var callCount: Int { max(100_000, 5 * count) }
    private static var slowCallCount: Int { 10_000 }

    init(count: Int, _ workspace: Workspace) {
        self.count = count
        self.workspace = workspace
        stored = Samples(count)
        read = stored.reordered()
    }

    /// The line and its peers; a dictionary behind a lock is the reference.
    func line(_ goal: GoalLine.Goal) throws -> GoalLine {
        let name = "get-\(Value.title)-\(count)"
        let dictionary = DictionaryStore()
        try add("[String: any Sendable] and Mutex", dictionary, callCount)
        let store = try FileKVStore(at: workspace.place(name))
        try addFileKVStore(store)
        addReadingAsStored(dictionary, store)
        try addTypedDictionary()
        #if canImport(CLMDB)
        try add("LMDB", try LMDBStore(try workspace.directory("lmdb-\(name)"), .mapped), callCount)
        #endif
        #if canImport(CSQLite) || canImport(SQLite3)
        try add(
            "SQLite, prepared statement", try SQLiteStore(workspace.file("sqlite-\(name)"), .normal), Self.slowCallCount
        )
        #endif
        let defaults = try DefaultsStore(suite: workspace.suite(name))
        try add("UserDefaults", defaults, Self.slowCallCount)
        let isLarge = count > 1_000
        if isLarge {
            let loads = DependentLoads(count)
            let calls = callCount
            contest.add(DependentLoads.title, count: calls) { loads.run(calls) }
        }
        let measured = try contest.run(runs: isLarge ? 7 : 11)
        try defaults.discard()
        let (reference, own) = (measured[0], measured[1])
        // Measurements with the stored key objects are compared with one another.
        var rows = [GoalLine.Peer(measured[2], reference: nil), GoalLine.Peer(measured[3], reference: measured[2])]
        if isLarge, let loads = measured.last { rows.append(GoalLine.Peer(loads, reference: nil)) }
        let peers = ([reference] + measured[4...].dropLast(isLarge ? 1 : 0)).map {
            GoalLine.Peer($0, reference: reference)
        }
        var elsewhere = [GoalLine.Peer("MMKV \(Peers.elsewhere)", .nanoseconds(isLarge ? 160 : 37))]
        // The peer stores bytes; structs were not measured there.
        if Value.columnKind == .blob { elsewhere = [] }
        return GoalLine(
            "get \(Value.title), \(count) keys", goal, own, reference: reference, peers: peers + elsewhere + rows)
    }

    private func add<Store: Peer>(_ name: String, _ store: Store, _ calls: Int) throws {
        try store.setTogether(stored.names, stored.values)
        try check(name, read.names, read.values) { try store.get($0, as: Value.self) }
        let names = Array(read.names.prefix(calls))
        let rounds = max(1, calls / names.count)
        contest.add(name, count: rounds * names.count) {
            for _ in 0..<rounds { for name in names { keep(try store.get(name, as: Value.self)) } }
        }
    }

    private func addFileKVStore(_ store: FileKVStore) throws {
        for (key, value) in zip(stored.keys, stored.values) { try store.set(key, value: value) }
        let keys = read.keys
        try check("FileKVStore", read.names, read.values) { try store.read(KVKey<Value>($0)) }
        let rounds = max(1, callCount / count)
        contest.add("FileKVStore", count: rounds * count) {
            for _ in 0..<rounds { for key in keys { keep(store.get(key)) } }
        }
    }

    /// The same with the stored key objects, in storing order: names compare equal by address, and values are
    /// contiguous.
    private func addReadingAsStored(_ dictionary: DictionaryStore, _ store: FileKVStore) {
        let rounds = max(1, callCount / count)
        let (names, keys) = (stored.names, stored.keys)
        contest.add("dictionary and Mutex, by the keys that stored", count: rounds * count) {
            for _ in 0..<rounds { for name in names { keep(dictionary.get(name, as: Value.self)) } }
        }
        contest.add("FileKVStore, by the keys that stored", count: rounds * count) {
            for _ in 0..<rounds { for key in keys { keep(store.get(key)) } }
        }
    }

    private func addTypedDictionary() throws {
        let dictionary = Dictionary(uniqueKeysWithValues: zip(stored.names, stored.values))
        let names = read.names
        try check("Dictionary", read.names, read.values) { dictionary[$0] }
        let rounds = max(1, callCount / count)
        contest.add("[String: \(Value.title)], no lock", count: rounds * count) {
            for _ in 0..<rounds { for name in names { keep(dictionary[name]) } }
        }
    }
}
