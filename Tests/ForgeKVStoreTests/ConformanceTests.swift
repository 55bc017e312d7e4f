import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Testing

@Suite struct KeyValueConformanceTests {
    @Test("the store in memory conforms", arguments: ConformanceChecks.keyValueStore)
    func inMemory(_ check: ConformanceCheck<any KVStoring>) async throws {
        try await check.run(on: InMemoryKVStore())
    }

    @Test("the store on disk conforms", arguments: ConformanceChecks.keyValueStore)
    func onDisk(_ check: ConformanceCheck<any KVStoring>) async throws {
        let directory = TemporaryDirectory()
        try await check.run(on: FileKVStore(at: directory.url))
    }

    @Test("the store on a file system in memory conforms", arguments: ConformanceChecks.keyValueStore)
    func onFileSystemInMemory(_ check: ConformanceCheck<any KVStoring>) async throws {
        try await check.run(
            on: FileKVStore(at: "/a/store", fileSystem: InMemoryFileSystem(), options: eagerlyCompacting))
    }

    private static let suite = ConformanceSuite<any KVStoring>.keyValueStore

    /// The capabilities of a store in user defaults.
    private static let defaultsCapabilities: Set<ConformanceCapability> = [
        .typedReads, .keyListing, .rawValues, .longestNames,
    ]

    @Test("the store over user defaults conforms", arguments: suite.checks(having: defaultsCapabilities))
    func userDefaults(_ check: ConformanceCheck<any KVStoring>) async throws {
        let suite = TemporarySuite()
        try await check.run(on: UserDefaultsKVStore(suiteName: suite.name))
    }

    @Test("a reactive store conforms", arguments: ConformanceChecks.keyValueStore)
    func reactive(_ check: ConformanceCheck<any KVStoring>) async throws {
        let directory = TemporaryDirectory()
        try await check.run(on: ReactiveKVStore(InMemoryKVStore()))
        try await check.run(on: ReactiveKVStore(try FileKVStore(at: directory.url)))
        try await check.run(on: ReactiveKVStore(ReactiveKVStore(InMemoryKVStore())))
    }

    @Test("a reactive store over user defaults conforms", arguments: suite.checks(having: defaultsCapabilities))
    func reactiveDefaults(_ check: ConformanceCheck<any KVStoring>) async throws {
        let suite = TemporarySuite()
        try await check.run(on: ReactiveKVStore(UserDefaultsKVStore(suiteName: suite.name)))
    }

    @Test("a namespace conforms", arguments: suite.checks(having: suite.capabilities.subtracting([.longestNames])))
    func namespaced(_ check: ConformanceCheck<any KVStoring>) async throws {
        let base = InMemoryKVStore()
        try base.set(KVKey<Int>("a"), value: 7)
        try base.set(KVKey<Int>("n%2Fs"), value: 7)
        try await check.run(on: NamespacedKVStore(base, namespace: "n/s"))
        try await check.run(on: NamespacedKVStore(NamespacedKVStore(base, namespace: ""), namespace: "é"))
        #expect(base.get(KVKey<Int>("a")) == 7)
        #expect(base.get(KVKey<Int>("n%2Fs")) == 7)
        let suite = TemporarySuite()
        let divided = NamespacedKVStore(UserDefaultsKVStore(suiteName: suite.name), namespace: "a")
        if check.needs.isSubset(of: Self.defaultsCapabilities) { try await check.run(on: divided) }
    }

    @Test("a store with nothing behind it conforms", arguments: ConformanceChecks.keyValueStore)
    func withoutDefaults(_ check: ConformanceCheck<any KVStoring>) async throws {
        try await check.run(on: DefaultsKVStore(InMemoryKVStore(), defaults: InMemoryKVStore()))
    }

    @Test("a recorded store conforms", arguments: ConformanceChecks.keyValueStore)
    func recorded(_ check: ConformanceCheck<any KVStoring>) async throws {
        try await check.run(on: RecordingKVStore(InMemoryKVStore()))
    }

    @Test("a store that is moved to conforms", arguments: ConformanceChecks.keyValueStore)
    func migrating(_ check: ConformanceCheck<any KVStoring>) async throws {
        try await check.run(on: MigratingKVStore(from: InMemoryKVStore(), to: InMemoryKVStore()))
    }

    @Test("a store with expirations conforms", arguments: ConformanceChecks.keyValueStore)
    func expiring(_ check: ConformanceCheck<any KVStoring>) async throws {
        try await check.run(on: ExpiringKVStore(InMemoryKVStore()))
    }

    @Test("the store on disk keeps its values", arguments: ConformanceChecks.keyValueStorePersistence)
    func diskPersistence(_ check: ConformanceCheck<KeyValueStorePlace>) async throws {
        let directory = TemporaryDirectory()
        try await check.run(on: KeyValueStorePlace { try FileKVStore(at: directory.url) })
    }

    @Test(
        "the store on a file system in memory keeps its values",
        arguments: ConformanceChecks.keyValueStorePersistence)
    func memoryPersistence(_ check: ConformanceCheck<KeyValueStorePlace>) async throws {
        let fileSystem = InMemoryFileSystem()
        try await check.run(
            on: KeyValueStorePlace {
                try FileKVStore(at: "/store", fileSystem: fileSystem, options: eagerlyCompacting)
            })
    }

    @Test(
        "the store over user defaults keeps its values",
        arguments: ConformanceSuite.keyValueStorePersistence.checks(having: defaultsCapabilities))
    func userDefaultsPersistence(_ check: ConformanceCheck<KeyValueStorePlace>) async throws {
        let suite = TemporarySuite()
        try await check.run(on: KeyValueStorePlace { UserDefaultsKVStore(suiteName: suite.name) })
    }

    @Test("there are enough checks, each of its own")
    func list() {
        let descriptions = (ConformanceChecks.keyValueStore.map(\.description))
        #expect(descriptions.count >= 35)
        #expect(Set(descriptions).count == descriptions.count)
    }

    private let eagerlyCompacting = FileKVStore.Options(compactionFloorInBytes: 0)
}

/// A suite of user defaults, removed when the fixture goes.
final class TemporarySuite: Sendable {
    let name = "forge-kv-tests.\(UUID().uuidString)"

    deinit {
        let store = UserDefaultsKVStore(suiteName: name)
        do { try store.removeAll() } catch {}
        if let home = ProcessInfo.processInfo.environment["HOME"] {
            do { try FileManager.default.removeItem(atPath: "\(home)/.config/\(name).plist") } catch {}
        }
    }
}
