import ForgeCoding
import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Synchronization
import Testing

/// A store that fails at a chosen write.
private final class StumblingKVStore: KVLayer, KVTransactionalStoring {
    let base: InMemoryKVStore
    private let left = Mutex(Int.max)

    init(_ base: InMemoryKVStore) { self.base = base }

    /// Makes the writes after the next `count` fail.
    func fail(after count: Int) { left.withLock { $0 = count } }

    private func step() throws {
        try left.withLock { left in
            guard left > 0 else { throw KVStoreError(.unavailable(.inputOutput), .set) }
            left -= 1
        }
    }

    func set<T>(_ key: KVKey<T>, value: T) throws { try step(); try base.set(key, value: value) }
    func remove<T>(_ key: KVKey<T>) throws { try step(); try base.remove(key) }
    func removeAll() throws { try step(); try base.removeAll() }
    func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try step(); try base.setRawValue(bytes, named: name)
    }
    func removeValue(named name: String) throws { try step(); try base.removeValue(named: name) }
    func commit(_ batch: KVBatch) throws { try step(); try base.commit(batch) }
    func synchronize() throws { try step() }
}

/// A store without batches and revisions.
private struct PlainKVStore: KVLayer, KVRawStoring {
    let base: InMemoryKVStore
}

@Suite("Migration from one store to another")
struct MigratingTests {
    private let old = InMemoryKVStore()
    private let new = InMemoryKVStore()
    private let key = KVKey<Int>("a")

    private func fill(_ count: Int = 5) throws {
        for index in 0..<count { try old.set(KVKey<Int>("\(index)"), value: index) }
    }

    @Test(
        "what the old store reads as another type stays readable until it is removed there", arguments: [true, false])
    func convertedValues(copiesOnRead: Bool) throws {
        let suite = TemporarySuite()
        try #require(UserDefaults(suiteName: suite.name)).set(1, forKey: "number")
        let store = MigratingKVStore(
            from: UserDefaultsKVStore(suiteName: suite.name), to: new, copiesOnRead: copiesOnRead)
        let flag = KVKey<Bool>("number")
        for _ in 0..<2 { #expect(try store.read(flag) == true) }
        try store.migrateAll()
        #expect(try store.read(flag) == true)
        #expect(store.get(flag) == true)
        try store.set(flag, value: true)
        try store.removeMigrated()
        #expect(try store.read(flag) == true)
    }

    @Test("between stores that overlap, nothing is removed")
    func overlap() throws {
        try fill()
        let directory = TemporaryDirectory()
        let file = try FileKVStore(at: directory.url)
        try file.set(key, value: 1)
        func check<Old: KVRawStoring, New: KVRawStoring>(_ store: MigratingKVStore<Old, New>, _ old: Old) throws {
            let names = try old.keys().filter { !$0.contains("/") }.sorted()
            for _ in 0..<2 {
                let error = #expect(throws: KVStoreError.self) { try store.removeMigrated() }
                #expect(error?.code == .refused && error?.operation == .migrate)
                #expect(try old.keys().filter { !$0.contains("/") }.sorted() == names)
            }
        }
        try check(MigratingKVStore(from: old, to: NamespacedKVStore(old, namespace: "v2")), old)
        try check(MigratingKVStore(from: old, to: old), old)
        // Without revisions a removal itself shows it; the value is put back.
        try check(MigratingKVStore(from: old, to: PlainKVStore(base: old)), old)
        try check(MigratingKVStore(from: file, to: try FileKVStore(at: directory.url)), file)
        #expect(throws: KVStoreError.self) {
            try MigratingKVStore(from: old, to: NamespacedKVStore(old, namespace: "v3")).migrateAll()
        }
    }

    @Test("a namespace of the old store can be the new one, if its names are left out")
    func namespaceOfOld() throws {
        try fill()
        let new = NamespacedKVStore(old, namespace: "v2")
        let store = MigratingKVStore(from: old, to: new, names: { !$0.hasPrefix("v2/") })
        try store.migrateAll()
        #expect(try store.removeMigrated().failures.isEmpty)
        #expect(try old.keys().allSatisfy { $0.hasPrefix("v2/") })
        #expect(try new.keys().sorted() == ["0", "1", "2", "3", "4"])
    }

    @Test("excluded names stay in the old store, whatever is moved or removed")
    func includedNames() throws {
        try fill(4)
        let names: Set = ["1", "3"]
        let store = MigratingKVStore(from: old, to: new, names: names.contains)
        #expect(try Set(store.keys()) == names)
        #expect(try store.migrateAll().copiedCount == 2)
        #expect(try Set(new.keys()) == names)
        try store.removeMigrated()
        #expect(try Set(old.keys()) == ["0", "2"])
        try old.set(KVKey<Int>("1"), value: 7)
        try store.removeAll()
        #expect(try Set(old.keys()) == ["0", "2"])
        #expect(try new.keys().isEmpty)
        let report = try new.importValues(from: .store(old).filter { $0 == "2" })
        #expect(report.copiedCount == 1)
        #expect(try new.keys() == ["2"])
    }

    @Test("a value in the old store is copied when it is read", arguments: [true, false])
    func reading(_ copies: Bool) throws {
        try old.set(key, value: 1)
        let store = MigratingKVStore(from: old, to: new, copiesOnRead: copies)
        #expect(store.contains(key))
        #expect(try store.keys() == ["a"])
        #expect(store.get(key) == 1)
        #expect(new.contains(key) == copies)
        #expect(try store.rawValue(named: "a") == old.rawValue(named: "a"))
        try store.set(key, value: 2)
        #expect(try store.read(key) == 2)
        #expect(old.get(key) == 1)
    }

    @Test("removed values do not reappear from the old store")
    func removing() throws {
        try fill(4)
        let store = MigratingKVStore(from: old, to: new)
        try store.remove(KVKey<Int>("0"))
        try store.removeValue(named: "1")
        try store.batch { $0.remove(KVKey<Int>("2")) }
        #expect(try store.keys() == ["3"])
        let again = MigratingKVStore(from: old, to: new)
        #expect(again.get(KVKey<Int>("0")) == nil)
        #expect(try again.keys() == ["3"])
        try again.removeAll()
        #expect(try again.keys() == [])
        #expect(try old.keys() == [])
    }

    @Test("everything is copied, and the old store is kept until it is explicitly emptied")
    func all() throws {
        try fill()
        try new.set(KVKey<Int>("0"), value: 100)
        let store = MigratingKVStore(from: old, to: new)
        let report = try store.migrateAll()
        #expect(report.copiedCount == 4)
        #expect(report.keptNames == ["0"])
        #expect(report.isComplete)
        #expect(try old.keys().count == 5)
        #expect(try store.migrateAll().copiedCount == 0)
        try store.removeMigrated()
        #expect(try old.keys() == [])
        #expect(try store.integers() == ["0": 100, "1": 1, "2": 2, "3": 3, "4": 4])
    }

    @Test("after an interruption at any point, nothing is lost, and the migration continues", arguments: 0..<14)
    func interruption(_ count: Int) throws {
        try fill()
        let (shakyOld, shakyNew) = (StumblingKVStore(old), StumblingKVStore(new))
        shakyOld.fail(after: count - 6)
        shakyNew.fail(after: count)
        do {
            try MigratingKVStore(from: shakyOld, to: shakyNew).removeMigrated()
        } catch is KVStoreError {}
        let later = MigratingKVStore(from: old, to: new)
        let expected = ["0": 0, "1": 1, "2": 2, "3": 3, "4": 4]
        #expect(try later.integers() == expected)
        #expect(try later.removeMigrated().isComplete)
        #expect(try new.integers() == expected)
        #expect(try old.keys() == [])
    }

    @Test("the old values stay as long as the new store cannot make its copies durable")
    func notDurable() throws {
        try fill()
        try MigratingKVStore(from: old, to: new).migrateAll()
        let shaky = StumblingKVStore(new)
        shaky.fail(after: 0)
        #expect(throws: KVStoreError.self) { try MigratingKVStore(from: old, to: shaky).removeMigrated() }
        #expect(try old.keys().count == 5)
    }

    @Test("a removal copies, verifies and flushes a value that the old store has, and makes no other call without one")
    func callsOfRemoval() throws {
        let recording = RecordingKVStore(new)
        let store = MigratingKVStore(from: old, to: recording)
        try store.remove(key)
        #expect(recording.calls == [KVStoreCall(.remove, ["a"])])
        try old.set(key, value: 1)
        recording.clear()
        try store.remove(key)
        #expect(
            recording.calls.map(\.operation) == [.rawValue, .setRawValue, .rawValue, .synchronize, .remove])
        #expect(try old.keys() == [])
        #expect(try new.keys() == [])
    }

    @Test("a failed removal keeps the value", arguments: 0..<4)
    func failingRemoval(_ count: Int) throws {
        try old.set(key, value: 1)
        let (shakyOld, shakyNew) = (StumblingKVStore(old), StumblingKVStore(new))
        shakyNew.fail(after: count)
        let store = MigratingKVStore(from: shakyOld, to: shakyNew)
        do {
            try store.remove(key)
            #expect(try store.read(key) == nil)
            #expect(count >= 3)
        } catch is KVStoreError {
            #expect(try store.read(key) == 1)
            #expect(try MigratingKVStore(from: old, to: new).read(key) == 1)
        }
    }

    @Test("a value that cannot be copied is read from the old store, and reported")
    func uncopied() throws {
        try old.set(KVKey<String>("long"), value: String(repeating: "x", count: 100))
        try old.set(key, value: 1)
        let small = InMemoryKVStore(maximumValueSizeInBytes: 50)
        let store = MigratingKVStore(from: old, to: small)
        #expect(store.get(KVKey<String>("long"))?.count == 100)
        let report = try store.removeMigrated()
        #expect(report.failures.map(\.name) == ["long"])
        #expect(report.failures.first?.error.code == .valueTooLarge)
        #expect(try old.keys() == ["long"])
        #expect(throws: KVStoreError.self) { try store.snapshot() }
    }

    @Test("compare-and-set works on a value that is still in the old store")
    func updates() throws {
        try old.set(key, value: 1)
        let store = MigratingKVStore(from: old, to: new, copiesOnRead: false)
        #expect(try !store.createIfAbsent(key, value: 5))
        #expect(try store.update(key, default: 100) { $0 += 1 } == 2)
        #expect(try store.snapshot().read(key) == 2)
    }

    @Test("a value of another type is not treated as absent")
    func undecodable() throws {
        try old.set(KVKey<String>("a"), value: "x")
        let store = MigratingKVStore(from: old, to: new)
        #expect(store.get(key) == nil)
        #expect(throws: KVStoreError.self) { try store.read(key) }
        #expect(store.get(KVKey<String>("a")) == "x")
    }

    @Test("the old store may be the user defaults")
    func userDefaults() throws {
        let suite = TemporarySuite()
        let defaults = UserDefaultsKVStore(suiteName: suite.name)
        try defaults.set(KVKey<[String]>("list"), value: ["a", "b"])
        try defaults.set(KVKey<Date>("date"), value: Date(timeIntervalSince1970: 0.5))
        let store = MigratingKVStore(from: defaults, to: new)
        #expect(try store.migrateAll().copiedCount == 2)
        #expect(new.get(KVKey<[String]>("list")) == ["a", "b"])
        #expect(new.get(KVKey<Date>("date")) == Date(timeIntervalSince1970: 0.5))
    }

    @Test("readers always see every value during a move and while the old store is emptied")
    func concurrency() async throws {
        try fill(200)
        let store = MigratingKVStore(from: old, to: new, copiesOnRead: false)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try store.removeMigrated() }
            for _ in 0..<2 {
                group.addTask {
                    for index in 0..<200 {
                        let key = KVKey<Int>("\(index)")
                        guard try store.read(key) == index, store.contains(key) else {
                            throw KVStoreError(.damaged, .read, key: key.name)
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try old.keys() == [])
    }
}
