import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Synchronization
import TestDepth
import Testing

@Suite("The checks of what threads see of each other")
struct KeyValueThreadTests {
    @Test("each detect their defect, and no other check does", arguments: ThreadedKVStore.Defect.allCases)
    func defects(_ defect: ThreadedKVStore.Defect) async {
        let planted = ThreadedKVStore.Defect.allCases.map(\.check)
        var failed: [String] = []
        for check in ConformanceChecks.transactionalKeyValueStore where planted.contains(check.description) {
            do {
                try await Waiting.$limit.withValue(.seconds(2)) { try await check.run(on: ThreadedKVStore(defect)) }
            } catch {
                failed.append(check.description)
            }
        }
        #expect(failed == [defect.check])
    }
}

/// A key-value store with one defect that shows in another thread, or in how names are compared.
final class ThreadedKVStore: KVLayer, KVTransactionalStoring {
    /// A defect, mostly with the description of the check that must fail.
    enum Defect: String, CaseIterable, Sendable {
        case cachesValues = "a thread that has read a key sees what another one writes"
        case cachesEntries = "a thread that has read an entry sees what another one writes"
        case changesOneByOne = "a reader of one key after another sees a whole batch or nothing of it"
        case removesWithoutLooking = "of concurrent removeIfPresent calls one returns true for each value"
        case comparesCharactersInBatches = "canonically equivalent names in one batch are different names"
        case comparesTheEndsOfNames = "long names that differ in one byte are different keys"
        case cachesLate = "once a set has returned, no read that began before it brings the old value back"
        case removesFirst = "a value that is replaced is never absent meanwhile"
        case listsOnePiece = "keys lists every name while values are replaced"
        case migratesUnderLock = "a migration of a key may read the store"
        case losesTextOfEmptyName = "a name that is a prefix of another is a distinct key"
        case sharesHiddenObjects = "an object inside a value is not shared between readers"
        case reversesNumbersInSnapshots = "an entry is the raw value with a revision"
        case cachesVersions = "a value of a later version is of a newer schema and is kept"
        case hidesFailedMigrations = "a value of a version without a migration is undecodable and is kept"
        case namesAnotherCall = "raw values refuse a name that is too long"
        case cachesDecoded = "a value that is replaced while it is decoded does not come back"
        case countsNoRemovals = "revisions increase with every write of any key"
        case forgetsToWake = "a store that reports changes reports those of every call, removeAll included"
        case takesLongNamesOfArrays = "a name longer than 1,024 bytes is refused and changes nothing"
        case copiesOnePiece = "a snapshot lists every name once, with a whole value, while values are replaced"

        /// The description of the check that must fail.
        var check: String { self == .cachesDecoded ? Defect.cachesLate.rawValue : rawValue }
    }

    let base = InMemoryKVStore()
    private let defect: Defect
    /// Tells what threads have cached for this store from what they have for others.
    private let id = UUID().uuidString
    private let lock = NSLock()
    /// The values that were read last, of integers.
    private let readLast = Mutex<[String: Int]>([:])
    private let writeCount = Mutex(0)
    /// How many times `removeValue` and `removeAll` were called.
    private let removalCount = Mutex(0)
    /// The changes that wake no subscriber.
    private let hub = ChangeHub()
    /// The value that was decoded last.
    private let decoded = Mutex<(any Sendable)?>(nil)

    init(_ defect: Defect) { self.defect = defect }

    private func mapped<T>(_ key: KVKey<T>) -> KVKey<T> {
        guard defect == .comparesTheEndsOfNames, (129...1024).contains(key.name.utf8.count) else { return key }
        return KVKey(String(key.name.prefix(64) + key.name.suffix(64)))
    }

    /// The value that this thread has cached; if there is none, it calls `read` and caches the result.
    private func cached<Value>(_ id: String, _ read: () throws -> Value?) rethrows -> Value? {
        let cache = Thread.current.threadDictionary
        let id = "\(self.id) \(id)"
        if let value = cache[id] as? Value { return value }
        let value = try read()
        cache[id] = value
        return value
    }

    func get<T>(_ key: KVKey<T>) -> T? {
        if defect == .cachesValues, key.name == "a", key.migratedVersions.isEmpty {
            return cached(key.name) { base.get(key) }
        }
        if defect == .sharesHiddenObjects, "\(T.self)" == "CheckHidingHolder" {
            return cached(key.name) { base.get(key) }
        }
        if defect == .cachesDecoded, "\(T.self)" == "CheckMeetingValue" {
            if let value = decoded.withLock(\.self) as? T { return value }
            let value = base.get(key)
            decoded.withLock { $0 = value }
            return value
        }
        if defect == .cachesVersions, T.self == Int.self {
            if let value = readLast.withLock({ $0[key.name] }) as? T { return value }
            let value = base.get(key)
            if !key.migratedVersions.isEmpty { readLast.withLock { $0[key.name] = value as? Int } }
            return value
        }
        if defect == .cachesLate, T.self == Int.self, Int(key.name) != nil {
            if let value = readLast.withLock({ $0[key.name] }) { return value as? T }
            let value = base.get(key)
            passTime()
            readLast.withLock { $0[key.name] = value as? Int }
            return value
        }
        let isLocked = defect == .migratesUnderLock
        if isLocked { lock.lock() }
        defer {
            if isLocked, !key.migratedVersions.isEmpty { lock.unlock() }
        }
        if isLocked, key.migratedVersions.isEmpty { lock.unlock() }
        return base.get(mapped(key))
    }

    func read<T>(_ key: KVKey<T>) throws -> T? {
        do {
            return try base.read(key)
        } catch let error as KVStoreError
            where defect == .hidesFailedMigrations && error.code == .undecodable && key.migratedVersions == [2]
        {
            return nil
        }
    }

    func entry(named name: String) throws -> KVEntry? {
        switch defect {
        case .cachesEntries where name == "a": return try cached("entry \(name)") { try base.entry(named: name) }
        case .countsNoRemovals:
            let removals = UInt64(removalCount.withLock(\.self))
            return try base.entry(named: name).map { KVEntry(bytes: $0.bytes, revision: $0.revision - removals) }
        default: return try base.entry(named: name)
        }
    }

    /// Forgets what this thread has read.
    private func write(_ name: String, _ body: () throws -> Void) throws {
        let cache = Thread.current.threadDictionary
        for prefix in ["", "entry "] { cache["\(id) \(prefix)\(name)"] = nil }
        try body()
        readLast.withLock { $0[name] = nil }
        decoded.withLock { $0 = nil }
        writeCount.withLock { $0 += 1 }
        guard defect == .forgetsToWake, name.utf8.count <= 1024 else { return }
        hub.append(ChangeHub.Change(Array(name.utf8), bytes: try base.rawValue(named: name)))
    }

    func subscribe(to scope: KVScope) -> KVChanges? {
        guard defect == .forgetsToWake else { return base.subscribe(to: scope) }
        return hub.changes(in: scope) { name in
            do { return try base.entry(named: name) } catch { return nil }
        }
    }

    func snapshot() throws -> KVSnapshot {
        let count = writeCount.withLock(\.self)
        let snapshot = try base.snapshot()
        if defect == .copiesOnePiece {
            passTime()
            if writeCount.withLock(\.self) > count { return KVSnapshot(Array(snapshot.prefix(512))) }
        }
        guard defect == .reversesNumbersInSnapshots else { return snapshot }
        return KVSnapshot(
            snapshot.map { name, entry -> (name: String, entry: KVEntry) in
                let bytes = name.hasPrefix("Float ") ? entry.bytes.reversed() : entry.bytes
                return (name, KVEntry(bytes: bytes, revision: entry.revision))
            })
    }

    func keys() throws -> [String] {
        let count = writeCount.withLock(\.self)
        let names = try base.keys()
        if defect == .listsOnePiece { passTime() }
        return defect == .listsOnePiece && writeCount.withLock(\.self) > count ? Array(names.prefix(512)) : names
    }

    func set<T>(_ key: KVKey<T>, value: T) throws {
        try write(key.name) {
            if defect == .removesFirst, T.self == Int.self, key.name.utf8.count <= 1024 {
                try base.remove(key)
                passTime()
            }
            if defect == .losesTextOfEmptyName, key.name.isEmpty, T.self == String.self { return }
            if defect == .takesLongNamesOfArrays, key.name.utf8.count > 1024, T.self == [Int].self { return }
            try base.set(mapped(key), value: value)
        }
    }

    func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try write(name) { try base.setRawValue(bytes, named: name) }
    }

    func remove<T>(_ key: KVKey<T>) throws { try write(key.name) { try base.remove(mapped(key)) } }

    func removeValue(named name: String) throws {
        removalCount.withLock { $0 += 1 }
        do {
            try write(name) { try base.removeValue(named: name) }
        } catch var error as KVStoreError where defect == .namesAnotherCall {
            error.operation = .read
            throw error
        }
    }

    func removeAll() throws {
        removalCount.withLock { $0 += 1 }
        try write("a") { try base.removeAll() }
        readLast.withLock { $0 = [:] }
    }

    func commit(_ batch: KVBatch) throws {
        var made = KVBatch()
        switch defect {
        case .changesOneByOne where batch.changes.count > 1:
            for change in batch.changes {
                var single = KVBatch()
                single.append(change)
                try base.commit(single)
            }
            return
        case .comparesCharactersInBatches:
            var last: [String: KVBatch.Change] = [:]
            for change in batch.changes { last[change.name] = change }
            for change in last.values { made.append(change) }
            for requirement in batch.requirements { made.require(requirement.name, revision: requirement.revision) }
        case .removesWithoutLooking where batch.changes.count == 1:
            guard case .remove = batch.changes[0] else { return try base.commit(batch) }
            passTime()
            made.append(batch.changes[0])
        default: made = batch
        }
        for change in batch.changes { try write(change.name) {} }
        try base.commit(made)
    }
}
