import ForgeCoding
import ForgeCrashTesting
import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Synchronization
import TestDepth
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

    /// A store whose device fails at each flush.
    private struct UnflushableKVStore: KVLayer, KVTransactionalStoring {
        let base = InMemoryKVStore()
        func synchronize() throws { throw KVStoreError(.durabilityUnknown, .synchronize) }
    }

    @Test("the error of a removal before which a store could not be flushed says that it was not made")
    func failedPreparation() throws {
        let shaky = UnflushableKVStore()
        let store = MigratingKVStore(from: shaky, to: new)
        let calls: [(KVStoreError.Operation, () throws -> Void)] = [
            (.remove, { try store.remove(key) }), (.remove, { try store.removeValue(named: "a") }),
            (.batch, { try store.batch { $0.remove(key) } }), (.removeAll, { try store.removeAll() }),
        ]
        for (operation, call) in calls {
            try shaky.set(key, value: 1)
            let error = #expect(throws: KVStoreError.self) { try call() }
            #expect(error?.operation == operation && error?.code == .unavailable(.inputOutput))
            #expect(try store.read(key) == 1)
        }
        try old.set(key, value: 2)
        let other = MigratingKVStore(from: old, to: UnflushableKVStore())
        let error = #expect(throws: KVStoreError.self) { try other.remove(key) }
        #expect(error?.code == .unavailable(.inputOutput) && error?.key == "a")
        #expect(try other.read(key) == 2)
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
        try old.set(KVKey<Int>("b"), value: 3)
        let conflict = #expect(throws: KVStoreError.self) {
            try store.batch { batch in
                batch.require("b", revision: nil)
                try batch.set(key, value: 4)
            }
        }
        #expect(conflict?.code == .conflict)
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

@Suite("Removals while values move from one store to another, and crashes")
struct MigratingCrashTests {
    private typealias Store = MigratingKVStore<FileKVStore, FileKVStore>

    private struct Broken: Error { var name: String }

    private static let key = KVKey<Int>("a")

    /// Opens the store, whose old store may have to be filled first.
    private static func open(on fileSystem: any POSIXFileSystem, filling names: [String] = []) throws -> Store {
        var options = IssueRecorder().options()
        options.reserveLittle()
        let old = try FileKVStore(at: "/old", fileSystem: fileSystem, options: options)
        for name in names { try old.set(KVKey<Int>(name), value: 1) }
        if !names.isEmpty { try old.synchronize() }
        return MigratingKVStore(
            from: old, to: try FileKVStore(at: "/new", fileSystem: fileSystem, options: options), copiesOnRead: false)
    }

    private static let removals: [String: @Sendable (Store) throws -> Void] = [
        "remove": { store in
            try store.remove(key)
            try store.synchronize()
        },
        "removeIfPresent": { store in try store.removeIfPresent(key, durability: .full) },
        "batch": { store in try store.batch(durability: .full) { $0.remove(key) } },
        "removeAll": { store in
            try store.removeAll()
            try store.synchronize()
        },
        "removeMigrated": { store in
            try store.removeMigrated()
            try store.remove(key)
            try store.synchronize()
        },
    ]

    @Test("a value that was removed durably is not back after a power cut", arguments: removals.keys.sorted())
    func durable(_ name: String) throws {
        let remove = try #require(Self.removals[name])
        let device = try SimulatedDevice()
        do {
            let store = try Self.open(on: device.fileSystem, filling: ["a"])
            try remove(store)
            #expect(try store.keys() == [])
            device.crash(.powerCut)
        }
        device.unlock()
        #expect(try Self.open(on: device.fileSystem).keys() == [])
    }

    @Test("the old store is flushed once when a value is removed from it or may have been, and by no other change")
    func flushes() throws {
        let old = RecordingKVStore(InMemoryKVStore())
        let store = MigratingKVStore(from: old, to: InMemoryKVStore())
        func flushCount() -> Int {
            defer { old.clear() }
            return old.calls.filter { $0.operation == .synchronize }.count
        }
        try old.set(Self.key, value: 1)
        try store.set(Self.key, value: 2)
        try store.update(Self.key, default: 0) { $0 += 1 }
        #expect(flushCount() == 0)
        try store.remove(Self.key)
        #expect(flushCount() == 1)
        try store.removeValue(named: "absent")
        try store.set(Self.key, value: 1, durability: .full)
        try store.batch(durability: .full) { $0.remove(Self.key) }
        try store.removeAll()
        #expect(flushCount() == 0)
        // A process that was killed may have removed values without a flush.
        typealias Recorded = MigratingKVStore<RecordingKVStore<InMemoryKVStore>, InMemoryKVStore>
        let calls: [(Recorded) throws -> Void] = [
            { try $0.synchronize() }, { try $0.remove(Self.key) }, { try $0.removeAll() },
        ]
        for call in calls {
            let next = MigratingKVStore(from: old, to: InMemoryKVStore())
            for count in [1, 0] {
                try call(next)
                #expect(flushCount() == count)
            }
        }
    }

    @Test("an old store that cannot be flushed fails a flush only if a value was removed from it")
    func failingFlush() throws {
        let base = InMemoryKVStore()
        try base.set(Self.key, value: 1)
        let old = StumblingKVStore(base)
        let new = InMemoryKVStore()
        let store = MigratingKVStore(from: old, to: new)
        old.fail(after: 0)
        try store.synchronize()
        old.fail(after: 1)
        #expect(throws: KVStoreError.self) { try store.remove(Self.key) }
        // Removed from the old store, and kept in the new one.
        #expect(try base.keys() == [] && new.keys() == ["a"])
        #expect(throws: KVStoreError.self) { try store.synchronize() }
        old.fail(after: 1)
        try store.synchronize()
        #expect(store.get(Self.key) == 1)
    }

    @Test("the old store is flushed when its values are removed again after a failed flush")
    func repeatedEmptying() throws {
        let base = InMemoryKVStore()
        try base.set(Self.key, value: 1)
        let old = StumblingKVStore(base)
        let store = MigratingKVStore(from: old, to: InMemoryKVStore())
        // The first value is stored once more, to find out whether the stores overlap.
        old.fail(after: 2)
        #expect(throws: KVStoreError.self) { try store.removeMigrated() }
        #expect(try base.keys() == [])
        #expect(throws: KVStoreError.self) { try store.removeMigrated() }
        old.fail(after: 1)
        #expect(try store.removeMigrated().isComplete)
    }

    /// Removes each value durably in another way; removals that an earlier run has acknowledged are not repeated.
    private static func removeAll(
        in store: Store, except done: [String], begin: (String) -> Void, acknowledge: (String) -> Void
    ) throws {
        for name in ["a", "b", "c", "everything"] where !done.contains(name) {
            let key = KVKey<Int>(name)
            begin(name)
            switch name {
            case "a":
                try store.remove(key)
                try store.synchronize()
            case "b":
                // A removal by a killed process is only seen.
                if try !store.removeIfPresent(key, durability: .full) { try store.synchronize() }
            case "c":
                try store.batch(durability: .full) { batch in
                    try batch.set(KVKey<Int>("with c"), value: 1)
                    batch.remove(key)
                }
            default:
                try store.removeAll()
                try store.synchronize()
            }
            acknowledge(name)
        }
    }

    @Test("no crash, of a program that was started after a kill either, loses a value or brings a removed one back")
    func crashes() async throws {
        let report = try await forEachCrash(
            limit: TestDepth.limit(20, deep: 2_000),
            prepare: { fileSystem in _ = try Self.open(on: fileSystem, filling: ["a", "b", "c", "d"]) }
        ) { fileSystem, run in
            let store = try Self.open(on: fileSystem)
            try Self.removeAll(in: store, except: [], begin: run.begin, acknowledge: run.acknowledge)
        } recover: { fileSystem, crash in
            let store = try Self.open(on: fileSystem)
            func has(_ name: String) -> Bool { store.contains(KVKey<Int>(name)) }
            for name in ["a", "b", "c"] where crash.acknowledged.contains(name) && has(name) {
                throw Broken(name: name)
            }
            if crash.acknowledged.contains("everything"), try !store.keys().isEmpty { throw Broken(name: "all") }
            if !crash.begun.contains("everything") {
                for name in ["a", "b", "c", "d"] where !crash.begun.contains(name) && !has(name) {
                    throw Broken(name: name)
                }
                // The batch is applied as a whole.
                if has("c") == has("with c") { throw Broken(name: "with c") }
            }
            // In the same store, which has not flushed what an earlier process has written.
            try Self.removeAll(
                in: store, except: crash.acknowledged, begin: crash.begin, acknowledge: crash.acknowledge)
        }
        #expect(report.stateCountAfterKills > 0 && report.nestedStateCount > 0)
    }
}
