import ForgeKVStore
import ForgeStorageTesting
import Synchronization
import Testing

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
