import ChildProcesses
import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Synchronization
import TestDepth
import Testing

@Suite struct KeyValueConformanceTests {
    @Test("the store in memory conforms", arguments: ConformanceChecks.transactionalKeyValueStore)
    func inMemory(_ check: ConformanceCheck<any KVTransactionalStoring>) async throws {
        try await check.run(on: InMemoryKVStore())
    }

    @Test("the store on disk conforms", arguments: ConformanceChecks.transactionalKeyValueStore)
    func onDisk(_ check: ConformanceCheck<any KVTransactionalStoring>) async throws {
        let directory = TemporaryDirectory()
        try await check.run(on: FileKVStore(at: directory.url))
    }

    @Test("the store on a file system in memory conforms", arguments: ConformanceChecks.transactionalKeyValueStore)
    func onFileSystemInMemory(_ check: ConformanceCheck<any KVTransactionalStoring>) async throws {
        try await check.run(
            on: FileKVStore(at: "/a/store", fileSystem: InMemoryFileSystem(), options: eagerlyCompacting))
    }

    @Test("a call of a store's own type, outside its module, is that of the store, not a default of its protocols")
    func concreteTypes() async throws {
        let (text, number) = (KVKey<String>("a"), KVKey<Int>("a"))
        let recorder = IssueRecorder()
        let (memory, file) = (InMemoryKVStore(), try LogFixture().open(recorder))
        try memory.set(text, value: "x")
        try file.set(text, value: "x")
        #expect(throws: KVStoreError.self) { try memory.read(number) }
        #expect(throws: KVStoreError.self) { try file.read(number) }
        #expect(memory.subscribe(to: .prefix("")) != nil)
        #expect(file.subscribe(to: .prefix("")) != nil)
        ExpiringKVStore(file).report(.tornTail(sizeInBytes: 1))
        MigratingKVStore(from: memory, to: file).report(.tornTail(sizeInBytes: 1))
        #expect(recorder.issues.count == 2)
        let mirror = try MirroredKVStore(LocalAsyncKVStore(memory))
        #expect(mirror.subscribe(to: .prefix("")) != nil)
        try await mirror.close()
    }

    private enum Base: CaseIterable { case memory, disk, reactive }

    @Test(
        "a reactive store conforms",
        arguments: TestDepth.pairs(ConformanceChecks.transactionalKeyValueStore, Base.allCases))
    private func reactive(_ check: ConformanceCheck<any KVTransactionalStoring>, over base: Base) async throws {
        let directory = TemporaryDirectory()
        switch base {
        case .memory: try await check.run(on: ReactiveKVStore(InMemoryKVStore()))
        case .disk: try await check.run(on: ReactiveKVStore(try FileKVStore(at: directory.url)))
        case .reactive: try await check.run(on: ReactiveKVStore(ReactiveKVStore(InMemoryKVStore())))
        }
    }

    @Test("a namespace conforms", arguments: ConformanceSuite.transactionalKeyValueStore.checks(having: [.typedReads]))
    func namespaced(_ check: ConformanceCheck<any KVTransactionalStoring>) async throws {
        let base = InMemoryKVStore()
        try base.set(KVKey<Int>("a"), value: 7)
        try base.set(KVKey<Int>("n%2Fs"), value: 7)
        try await check.run(on: NamespacedKVStore(base, namespace: "n/s"))
        try await check.run(on: NamespacedKVStore(NamespacedKVStore(base, namespace: ""), namespace: "é"))
        #expect(base.get(KVKey<Int>("a")) == 7)
        #expect(base.get(KVKey<Int>("n%2Fs")) == 7)
    }

    @Test("a store with empty defaults conforms", arguments: ConformanceChecks.transactionalKeyValueStore)
    func withoutDefaults(_ check: ConformanceCheck<any KVTransactionalStoring>) async throws {
        try await check.run(on: FallbackKVStore(InMemoryKVStore(), defaults: InMemoryKVStore()))
    }

    @Test("a recorded store conforms", arguments: ConformanceChecks.transactionalKeyValueStore)
    func recorded(_ check: ConformanceCheck<any KVTransactionalStoring>) async throws {
        try await check.run(on: RecordingKVStore(InMemoryKVStore()))
    }

    @Test("a migrating store conforms", arguments: ConformanceChecks.transactionalKeyValueStore)
    func migrating(_ check: ConformanceCheck<any KVTransactionalStoring>) async throws {
        try await check.run(on: MigratingKVStore(from: InMemoryKVStore(), to: InMemoryKVStore()))
    }

    @Test("a store with expirations conforms", arguments: ConformanceChecks.transactionalKeyValueStore)
    func expiring(_ check: ConformanceCheck<any KVTransactionalStoring>) async throws {
        try await check.run(on: ExpiringKVStore(InMemoryKVStore()))
    }

    @Test(
        "each store and layer reports its changes", arguments: ConformanceChecks.keyValueStoreChanges,
        ["memory", "disk", "reactive", "namespaced", "defaults", "migrating", "expiring", "recorded"])
    func changes(_ check: ConformanceCheck<any KVTransactionalStoring>, of name: String) async throws {
        let directory = TemporaryDirectory()
        let base = InMemoryKVStore()
        let store: any KVTransactionalStoring =
            switch name {
            case "memory": base
            case "disk": try FileKVStore(at: directory.url)
            case "reactive": ReactiveKVStore(try FileKVStore(at: "/store", fileSystem: InMemoryFileSystem()))
            case "namespaced": NamespacedKVStore(base, namespace: "n/s")
            case "defaults": FallbackKVStore(base, defaults: InMemoryKVStore())
            case "migrating": MigratingKVStore(from: InMemoryKVStore(), to: base)
            case "expiring": ExpiringKVStore(base)
            default: RecordingKVStore(base)
            }
        try await check.run(on: store)
    }

    @Test("the store on disk keeps its values", arguments: ConformanceChecks.transactionalKeyValueStorePersistence)
    func diskPersistence(_ check: ConformanceCheck<KeyValueStoreLocation<any KVTransactionalStoring>>) async throws {
        let directory = TemporaryDirectory()
        try await check.run(on: KeyValueStoreLocation { try FileKVStore(at: directory.url) })
    }

    @Test(
        "the store on a file system in memory keeps its values",
        arguments: ConformanceChecks.transactionalKeyValueStorePersistence)
    func memoryPersistence(_ check: ConformanceCheck<KeyValueStoreLocation<any KVTransactionalStoring>>) async throws {
        let fileSystem = InMemoryFileSystem()
        try await check.run(
            on: KeyValueStoreLocation {
                try FileKVStore(at: "/store", fileSystem: fileSystem, options: eagerlyCompacting)
            })
    }

    @Test("there are enough checks, all distinct")
    func list() {
        let descriptions = (ConformanceChecks.transactionalKeyValueStore.map(\.description))
        #expect(descriptions.count >= 35)
        #expect(Set(descriptions).count == descriptions.count)
    }

    private let eagerlyCompacting = FileKVStore.Options(compactionFloorInBytes: 0)
}

/// One test at a time: on Linux, calls of `UserDefaults` that meet spin for the one lock that Foundation has for all suites.
/// Both layers pass every check over a store in memory in every run, and over user defaults in a deep one.
@Suite("Stores over user defaults conform", .serialized, .onOwnThreads) struct UserDefaultsConformanceTests {
    @Test("the store over user defaults conforms", arguments: ConformanceChecks.rawKeyValueStore)
    func userDefaults(_ check: ConformanceCheck<any KVRawStoring>) async throws {
        let suite = TemporarySuite()
        try await check.run(on: UserDefaultsKVStore(suiteName: suite.name))
    }

    @Test(
        "a reactive store over user defaults conforms",
        arguments: TestDepth.sample(
            TestDepth.leavingOut("4 MiB", of: ConformanceChecks.rawKeyValueStore), every: 3))
    func reactiveDefaults(_ check: ConformanceCheck<any KVRawStoring>) async throws {
        let suite = TemporarySuite()
        try await check.run(on: ReactiveKVStore(UserDefaultsKVStore(suiteName: suite.name)))
    }

    @Test(
        "a namespace in user defaults conforms",
        arguments: TestDepth.sample(
            TestDepth.leavingOut("4 MiB", of: ConformanceSuite.rawKeyValueStore.checks(having: [.typedReads])),
            every: 3))
    func namespacedDefaults(_ check: ConformanceCheck<any KVRawStoring>) async throws {
        let suite = TemporarySuite()
        try await check.run(on: NamespacedKVStore(UserDefaultsKVStore(suiteName: suite.name), namespace: "a"))
    }

    @Test(
        "the store over user defaults keeps its values",
        arguments: ConformanceChecks.rawKeyValueStorePersistence)
    func userDefaultsPersistence(_ check: ConformanceCheck<KeyValueStoreLocation<any KVRawStoring>>) async throws {
        let suite = TemporarySuite()
        try await check.run(on: KeyValueStoreLocation { UserDefaultsKVStore(suiteName: suite.name) })
    }

    @Test("the name of a suite may have up to 200 bytes")
    func longestName() throws {
        let suite = TemporarySuite(name: TemporarySuite().name.padding(toLength: 200, withPad: "x", startingAt: 0))
        try UserDefaultsKVStore(suiteName: suite.name).set(KVKey<Int>("a"), value: 1)
        #expect(try UserDefaultsKVStore(suiteName: suite.name).read(KVKey<Int>("a")) == 1)
    }
}

/// A suite of user defaults, removed when the object is released.
final class TemporarySuite: Sendable {
    let name: String

    init(name: String = "forge-kv-tests.\(UUID().uuidString)") { self.name = name }

    deinit {
        UserDefaults.standard.removePersistentDomain(forName: name)
        if let home = ProcessInfo.processInfo.environment["HOME"] {
            do { try FileManager.default.removeItem(atPath: "\(home)/.config/\(name).plist") } catch {}
        }
    }
}

/// A custom store with only the five required calls.
private final class FiveCallStore: KVStoring {
    private let values = Mutex<[[UInt8]: any Sendable]>([:])

    private func name<T>(_ key: KVKey<T>) -> [UInt8] { Array(key.name.utf8) }

    func get<T: Codable>(_ key: KVKey<T>) -> T? { values.withLock { $0[name(key)] as? T } }

    func set<T: Codable>(_ key: KVKey<T>, value: T) throws {
        values.withLock { $0[name(key)] = value }
    }

    func remove<T: Codable>(_ key: KVKey<T>) throws { _ = values.withLock { $0.removeValue(forKey: name(key)) } }

    func contains<T: Codable>(_ key: KVKey<T>) -> Bool { values.withLock { $0[name(key)] != nil } }

    func removeAll() throws { values.withLock { $0 = [:] } }
}

@Suite struct DefaultsOfTheProtocolTests {
    private let store: any KVStoring = FiveCallStore()

    @Test("a type with the five required calls conforms and can be used as any store")
    func fiveCalls() throws {
        let key = KVKey<Int>("a")
        try store.set(key, value: 1)
        #expect(store.get(key) == 1)
        #expect(try store.read(key) == 1)
        #expect(try store.read(KVKey<Int>("b")) == nil)
        try store.removeAll()
        #expect(!store.contains(key))
    }

    @Test("a reactive store works over the five required calls")
    func reactive() async throws {
        let reactive = ReactiveKVStore(FiveCallStore())
        let key = KVKey<Int>("a")
        var values = reactive.stream(key).makeAsyncIterator()
        try reactive.set(key, value: 1)
        try reactive.removeAll()
        #expect(await values.next() == .some(nil))
        #expect(await values.next() == 1)
        #expect(await values.next() == .some(nil))
    }
}
