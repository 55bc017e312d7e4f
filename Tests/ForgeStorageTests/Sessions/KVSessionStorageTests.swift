import ForgeKVStore
import ForgeStorage
import ForgeStorageTesting
import Foundation
import Synchronization
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

    @Test("a user that a later version saved is undecodable, not unavailable, and is kept until a user is saved")
    func newerVersion() throws {
        let later = KVKey<User>("session.user", migrations: [.from(1) { (old: Int) in User(id: old) }])
        try store.set(later, value: User(id: 2))
        let session = KVSessionStorage<User>(store: store)
        for _ in 0..<2 {
            let error = #expect(throws: SessionStorageError.self) { try session.loadUser() }
            guard case .undecodable(let cause as KVStoreError) = try #require(error) else {
                Issue.record("expected undecodable, got \(String(describing: error))")
                return
            }
            #expect(cause.code == .newerSchema(version: 2))
            #expect(cause.code.newerVersion == 2)
        }
        #expect(try store.read(later) == User(id: 2))
        try session.saveUser(User(id: 3))
        #expect(try session.loadUser() == User(id: 3))
    }

    @Test("a session with a lifetime ends that time after the last save, and a sweep removes it")
    func lifetime() throws {
        let time = Mutex(Date(timeIntervalSinceReferenceDate: 0))
        let sessions = ExpiringKVStore(store) { time.withLock { $0 } }
        let session = KVSessionStorage<User>(store: sessions, lifetime: .seconds(60))
        try session.saveUser(User(id: 1))
        time.withLock { $0 += 59 }
        #expect(try session.loadUser() == User(id: 1))
        try session.saveUser(User(id: 2))
        time.withLock { $0 += 59 }
        #expect(try session.loadUser() == User(id: 2))
        time.withLock { $0 += 1 }
        #expect(try session.loadUser() == nil)
        #expect(try store.keys() == ["session.user"])
        #expect(try sessions.removeExpired() == 1)
        #expect(try store.keys() == [])
        try session.saveUser(User(id: 3))
        #expect(try session.loadUser() == User(id: 3))
        try session.clearUser()
        #expect(try session.loadUser() == nil)
    }

    @Test("with a lifetime", arguments: ConformanceChecks.sessionStorage)
    func conformsWithLifetime(_ check: ConformanceCheck<any SessionStorage<ConformanceUser>>) async throws {
        try await check.run(on: KVSessionStorage(store: ExpiringKVStore(store), lifetime: .seconds(3_600)))
    }

    @Test("a store that cannot be read, written or cleared is three errors, never an absent user")
    func unavailable() throws {
        let session = KVSessionStorage<User>(store: FailingKVStore(code: .unavailable(.locked)))
        let load = #expect(throws: SessionStorageError.self) { try session.loadUser() }
        let save = #expect(throws: SessionStorageError.self) { try session.saveUser(User(id: 1)) }
        let clear = #expect(throws: SessionStorageError.self) { try session.clearUser() }
        #expect(load.map(String.init(describing:))?.hasPrefix("cannot load the user: read") == true)
        #expect(save.map(String.init(describing:))?.hasPrefix("cannot save the user: set") == true)
        #expect(clear.map(String.init(describing:))?.hasPrefix("cannot clear the user: remove") == true)
    }

    @Test(
        "a write that may have been made says so",
        arguments: [KVStoreError.Code.durabilityUnknown, .unknownOutcome])
    func unknownOutcome(_ code: KVStoreError.Code) throws {
        let session = KVSessionStorage<User>(store: FailingKVStore(code: code))
        for call in [{ try session.saveUser(User(id: 1)) }, { try session.clearUser() }] {
            let error = #expect(throws: SessionStorageError.self) { try call() }
            guard case .unknownOutcome(let cause as KVStoreError) = try #require(error) else {
                Issue.record("expected an unknown outcome, got \(String(describing: error))")
                return
            }
            #expect(cause.code == code)
        }
    }
}

/// A store whose calls fail.
private struct FailingKVStore: KVStoring {
    let code: KVStoreError.Code

    func get<T>(_ key: KVKey<T>) -> T? { nil }
    func read<T>(_ key: KVKey<T>) throws -> T? { throw KVStoreError(code, .read, key: key.name) }
    func set<T>(_ key: KVKey<T>, value: T) throws { throw KVStoreError(code, .set, key: key.name) }
    func remove<T>(_ key: KVKey<T>) throws { throw KVStoreError(code, .remove, key: key.name) }
    func contains<T>(_ key: KVKey<T>) -> Bool { false }
    func removeAll() throws { throw KVStoreError(code, .removeAll) }
}
