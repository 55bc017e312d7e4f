import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Testing

@Suite("Every store and layer sets aside unreadable values")
struct SetAsideConformanceTests {
    private static let checks = ConformanceChecks.transactionalKeyValueSettingAside

    /// Layers that forward writes.
    private static let layers = ["none", "namespaced", "defaults", "recording", "reactive", "expiring", "migrating"]

    private func layer<Base: KVTransactionalStoring>(
        _ name: String, over store: Base
    ) throws -> any KVTransactionalStoring {
        // The other tests know at compile time that a layer over this base is transactional.
        try #require(rawLayer(name, over: store) as? any KVTransactionalStoring)
    }

    private func rawLayer<Base: KVRawStoring>(_ name: String, over store: Base) throws -> any KVRawStoring {
        switch name {
        case "namespaced": NamespacedKVStore(store, namespace: "n")
        case "defaults": FallbackKVStore(store, defaults: InMemoryKVStore())
        case "recording": RecordingKVStore(store)
        case "reactive": ReactiveKVStore(store)
        case "expiring": ExpiringKVStore(NamespacedKVStore(store, namespace: "n"))
        case "migrating": MigratingKVStore(from: InMemoryKVStore(), to: store)
        default: store
        }
    }

    @Test(arguments: checks, layers)
    func inMemory(
        _ check: ConformanceCheck<SettingAsideStore<any KVTransactionalStoring>>, _ layer: String
    ) async throws {
        let store = InMemoryKVStore()
        try await check.run(
            on: SettingAsideStore(try self.layer(layer, over: store)) { store.setAside.map(\.entry.bytes) })
    }

    @Test(arguments: checks, layers)
    func onDisk(
        _ check: ConformanceCheck<SettingAsideStore<any KVTransactionalStoring>>, _ layer: String
    ) async throws {
        let fileSystem = InMemoryFileSystem()
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
        try await check.run(
            on: SettingAsideStore(try self.layer(layer, over: store)) {
                try store.damageReports().map { Array(try fileSystem.readFile(POSIXPath($0.file))) }
            })
    }

    @Test(arguments: ConformanceChecks.keyValueSettingAside, layers)
    func userDefaults(_ check: ConformanceCheck<SettingAsideStore<any KVRawStoring>>, _ layer: String) async throws {
        let suite = TemporarySuite()
        let store = UserDefaultsKVStore(suiteName: suite.name)
        try await check.run(
            on: SettingAsideStore(try rawLayer(layer, over: store)) { try store.setAside().map(\.bytes) })
    }

    @Test("a value that only the old store of a migration contains is set aside by the new one")
    func migrating() throws {
        for copiesOnRead in [true, false] {
            let old = InMemoryKVStore()
            let new = InMemoryKVStore()
            try old.set(KVKey<String>("a"), value: "precious")
            try old.set(KVKey<String>("b"), value: "precious")
            let store = MigratingKVStore(from: old, to: new, copiesOnRead: copiesOnRead)
            try store.set(KVKey<Int>("a"), value: 1)
            try store.batch { try $0.set(KVKey<Int>("b"), value: 1) }
            #expect(new.setAside.map(\.name) == ["a", "b"])
            try store.removeMigrated()
            #expect(store.get(KVKey<Int>("a")) == 1)
        }
    }

    @Test("an expired value is not set aside")
    func expired() throws {
        let base = InMemoryKVStore()
        let store = ExpiringKVStore(base)
        try store.set(KVKey<String>("a"), value: "old", expiresAt: .distantPast)
        try store.set(KVKey<Int>("a"), value: 1)
        #expect(base.setAside.isEmpty)
        #expect(store.get(KVKey<Int>("a")) == 1)
    }

    @Test("user defaults list the values that they set aside, each once, and keep them")
    func userDefaultsList() throws {
        let suite = TemporarySuite()
        let store = UserDefaultsKVStore(suiteName: suite.name)
        for name in ["plain", "é:1"] {
            for _ in 0..<3 {
                try store.set(KVKey<String>(name), value: "text")
                try store.set(KVKey<[Int]>(name), value: [1])
            }
            try store.set(KVKey<String>(name), value: "other")
            try store.set(KVKey<[Int]>(name), value: [1])
        }
        let reopened = UserDefaultsKVStore(suiteName: suite.name)
        // "text", [1] and "other".
        let expected = 3
        #expect(try reopened.setAside().filter { $0.name == "plain" }.count == expected)
        #expect(try reopened.setAside().filter { $0.name == "é:1" }.count == expected)
        #expect(try reopened.keys().sorted() == ["plain", "é:1"])
        try reopened.set(KVKey<Int>("#forge-set-aside:1:plain"), value: 5)
        #expect(reopened.get(KVKey<Int>("#forge-set-aside:1:plain")) == 5)
        try reopened.removeAll()
        #expect(try reopened.keys().isEmpty)
        #expect(try reopened.setAside().count == 2 * expected)
    }
}
