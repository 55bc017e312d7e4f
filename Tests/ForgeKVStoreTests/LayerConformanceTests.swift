import ForgeKVStore
import ForgeStorageTesting
import Testing

/// A minimal store: all other calls must come from the layer.
private struct Plain: KVStoring {
    let base = InMemoryKVStore()

    func get<T>(_ key: KVKey<T>) -> T? { base.get(key) }
    func read<T>(_ key: KVKey<T>) throws -> T? { try base.read(key) }
    func set<T>(_ key: KVKey<T>, value: T) throws { try base.set(key, value: value) }
    func remove<T>(_ key: KVKey<T>) throws { try base.remove(key) }
    func contains<T>(_ key: KVKey<T>) -> Bool { base.contains(key) }
    func removeAll() throws { try base.removeAll() }
}

/// A store with raw values and no transactions.
private struct Raw: KVLayer, KVRawStoring {
    let base = InMemoryKVStore()
}

/// A custom wrapper that changes nothing.
private struct Forwarding<Base: KVStoring>: KVLayer, KVStoring {
    let base: Base
}

extension Forwarding: KVRawStoring where Base: KVRawStoring {}
extension Forwarding: KVTransactionalStoring where Base: KVTransactionalStoring {}

/// The example of the documentation.
private struct UppercaseKVStore<Base: KVStoring>: KVLayer, KVStoring {
    let base: Base

    func set<T>(_ key: KVKey<T>, value: T) throws {
        if let text = value as? String, let upper = text.uppercased() as? T {
            try base.set(key, value: upper)
        } else {
            try base.set(key, value: value)
        }
    }
}

@Suite("A layer has the abilities of its base")
struct LayerConformanceTests {
    @Test("over a store with only the calls of `KVStoring`", arguments: ConformanceChecks.keyValueStore)
    func plain(_ check: ConformanceCheck<any KVStoring>) async throws {
        try await check.run(on: ReactiveKVStore(Plain()))
        try await check.run(on: RecordingKVStore(Plain()))
        try await check.run(on: ExpiringKVStore(Plain()))
        try await check.run(on: FallbackKVStore(Plain(), defaults: Plain()))
        try await check.run(on: Forwarding(base: Plain()))
    }

    @Test("over a store with raw values", arguments: ConformanceChecks.rawKeyValueStore)
    func raw(_ check: ConformanceCheck<any KVRawStoring>) async throws {
        try await check.run(on: ReactiveKVStore(Raw()))
        try await check.run(on: RecordingKVStore(Raw()))
        try await check.run(on: ExpiringKVStore(Raw()))
        try await check.run(on: FallbackKVStore(Raw(), defaults: Raw()))
        try await check.run(on: MigratingKVStore(from: Raw(), to: Raw()))
        try await check.run(on: Forwarding(base: Raw()))
    }

    @Test("over a transactional store", arguments: ConformanceChecks.transactionalKeyValueStore)
    func transactional(_ check: ConformanceCheck<any KVTransactionalStoring>) async throws {
        func base() -> Forwarding<InMemoryKVStore> { Forwarding(base: InMemoryKVStore()) }
        try await check.run(on: base())
        try await check.run(on: ReactiveKVStore(base()))
        try await check.run(on: Forwarding(base: base()))
        try await check.run(on: MigratingKVStore(from: Raw(), to: base()))
    }

    @Test("a layer of an app implements only the calls that it changes")
    func uppercase() throws {
        let store = UppercaseKVStore(base: InMemoryKVStore())
        try store.set(KVKey<String>("a"), value: "text")
        try store.set(KVKey<Int>("b"), value: 1)
        #expect(store.get(KVKey<String>("a")) == "TEXT")
        #expect(try store.read(KVKey<Int>("b")) == 1)
        #expect(!(store is any KVRawStoring))
    }

    @Test("a generic function wraps a store of unknown type")
    func opened() throws {
        func settings(in store: some KVRawStoring) -> any KVRawStoring {
            NamespacedKVStore(store, namespace: "settings")
        }
        let base = InMemoryKVStore()
        let store: any KVRawStoring = base
        try settings(in: store).set(KVKey<Int>("a"), value: 1)
        #expect(try base.keys() == ["settings/a"])
    }

    @Test("a layer over `any KVStoring` reports the changes of the store")
    func openedForChanges() async throws {
        func layer(over store: some KVStoring) -> any KVStoring { RecordingKVStore(ReactiveKVStore(store)) }
        let base = InMemoryKVStore()
        let store: any KVStoring = base
        let layered = layer(over: store)
        var changes = layered.changes(KVKey<Int>("a")).makeAsyncIterator()
        try layered.set(KVKey<Int>("a"), value: 1)
        #expect(await changes.next()?.revision == nil)
        #expect(await changes.next()?.revision == (try base.entry(named: "a")?.revision))
        #expect(ReactiveKVStore(base) is any KVTransactionalStoring)
    }
}
