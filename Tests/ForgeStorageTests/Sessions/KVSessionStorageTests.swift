import ForgeKVStore
import ForgeStorage
import ForgeStorageTesting
import Foundation
import Testing

@Suite("A session in a key-value store")
struct KVSessionStorageTests {
    struct User: Codable, Hashable {
        var id: Int
    }

    let store = InMemoryKVStore()

    @Test("in memory", arguments: ConformanceChecks.sessionStorage)
    func conforms(_ check: ConformanceCheck<any SessionStorage<ConformanceUser>>) async throws {
        try await check.run(on: KVSessionStorage(store: store))
    }

    @Test("in a file on disk", arguments: ConformanceChecks.sessionStorage)
    func conformsOnDisk(_ check: ConformanceCheck<any SessionStorage<ConformanceUser>>) async throws {
        try await withTemporaryDirectory { directory in
            let file = try FileKVStore(at: directory.appending(component: "settings"))
            try await check.run(on: KVSessionStorage(store: file))
        }
    }

    @Test("the session is one value under the given name; others are unaffected")
    func oneValue() throws {
        let onboarding = KVKey<Bool>("onboarding")
        try store.set(onboarding, value: true)
        let first = KVSessionStorage<User>(store: store, key: "first")
        let second = KVSessionStorage<User>(store: store, key: "second")
        try first.saveUser(User(id: 1))
        try second.saveUser(User(id: 2))
        #expect(store.get(KVKey<User>("first")) == User(id: 1))
        try first.clearUser()
        #expect(try first.loadUser() == nil)
        #expect(try second.loadUser() == User(id: 2))
        #expect(store.get(onboarding) == true)
    }

    @Test("an undecodable user is an error and is kept until a user is saved")
    func undecodable() throws {
        let session = KVSessionStorage<User>(store: store)
        try store.set(KVKey<String>("session.user"), value: "no user")
        for _ in 0..<2 {
            let error = #expect(throws: SessionStorageError.self) { try session.loadUser() }
            guard case .undecodable = try #require(error) else {
                Issue.record("expected undecodable, got \(String(describing: error))")
                return
            }
            #expect(String(describing: try #require(error)).hasPrefix("what is stored is no user: read"))
        }
        try session.saveUser(User(id: 3))
        #expect(try session.loadUser() == User(id: 3))
    }

    @Test("a store that cannot be read, written or cleared is three errors, never an absent user")
    func unavailable() throws {
        let session = KVSessionStorage<User>(store: LockedKVStore())
        let load = #expect(throws: SessionStorageError.self) { try session.loadUser() }
        let save = #expect(throws: SessionStorageError.self) { try session.saveUser(User(id: 1)) }
        let clear = #expect(throws: SessionStorageError.self) { try session.clearUser() }
        #expect(load.map(String.init(describing:))?.hasPrefix("cannot load the user: read") == true)
        #expect(save.map(String.init(describing:))?.hasPrefix("cannot save the user: set") == true)
        #expect(clear.map(String.init(describing:))?.hasPrefix("cannot clear the user: remove") == true)
    }
}

/// A store on a locked device.
private struct LockedKVStore: KVStoring {
    func get<T>(_ key: KVKey<T>) -> T? { nil }
    func read<T>(_ key: KVKey<T>) throws -> T? { throw KVStoreError(.unavailable(.locked), .read, key: key.name) }
    func set<T>(_ key: KVKey<T>, value: T) throws { throw KVStoreError(.unavailable(.locked), .set, key: key.name) }
    func remove<T>(_ key: KVKey<T>) throws { throw KVStoreError(.unavailable(.locked), .remove, key: key.name) }
    func contains<T>(_ key: KVKey<T>) -> Bool { false }
    func removeAll() throws { throw KVStoreError(.unavailable(.locked), .removeAll) }
}
