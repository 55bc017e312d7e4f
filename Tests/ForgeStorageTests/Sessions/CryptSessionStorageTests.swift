import Crypto
import ForgeCrypt
import ForgeStorage
import ForgeStorageTesting
import Foundation
import Testing

@Suite("A session in a secret store")
struct CryptSessionStorageTests {
    struct User: Codable, Hashable {
        var id: Int
    }

    let store = InMemoryCrypt()

    @Test("in memory", arguments: ConformanceChecks.sessionStorage)
    func conforms(_ check: ConformanceCheck<any SessionStorage<ConformanceUser>>) async throws {
        try await check.run(on: CryptSessionStorage(store: store))
    }

    @Test("in a vault on disk", arguments: ConformanceChecks.sessionStorage)
    func conformsOnDisk(_ check: ConformanceCheck<any SessionStorage<ConformanceUser>>) async throws {
        try await withTemporaryDirectory { directory in
            let vault = try VaultCrypt(
                at: directory.appending(component: "vault"), key: SymmetricKey(size: .bits256))
            try await check.run(on: CryptSessionStorage(store: vault))
        }
    }

    @Test("the session is one secret under the given name; others are unaffected")
    func oneSecret() throws {
        let token = CryptKey<String>(key: "auth.token")
        try store.set("abc", for: token)
        let first = CryptSessionStorage<User>(store: store, key: "first", accessibility: .afterFirstUnlock)
        let second = CryptSessionStorage<User>(store: store, key: "second")
        try first.saveUser(User(id: 1))
        try second.saveUser(User(id: 2))
        #expect(try store.get(CryptKey<User>(key: "first")) == User(id: 1))
        try first.clearUser()
        #expect(try first.loadUser() == nil)
        #expect(try second.loadUser() == User(id: 2))
        #expect(try store.get(token) == "abc")
    }

    @Test("an undecodable user is an error and is kept until a user is saved")
    func undecodable() throws {
        let session = CryptSessionStorage<User>(store: store)
        try store.set("no user", for: CryptKey<String>(key: "session.user"))
        for _ in 0..<2 {
            let error = #expect(throws: SessionStorageError.self) { try session.loadUser() }
            guard case .undecodable = try #require(error) else {
                Issue.record("expected undecodable, got \(String(describing: error))")
                return
            }
        }
        try session.saveUser(User(id: 3))
        #expect(try session.loadUser() == User(id: 3))
    }

    @Test("a store that cannot be read, written or cleared is three errors, never an absent user")
    func unavailable() throws {
        let session = CryptSessionStorage<User>(store: LockedCrypt())
        let load = #expect(throws: SessionStorageError.self) { try session.loadUser() }
        let save = #expect(throws: SessionStorageError.self) { try session.saveUser(User(id: 1)) }
        let clear = #expect(throws: SessionStorageError.self) { try session.clearUser() }
        #expect(load.map(String.init(describing:))?.hasPrefix("cannot load the user: get") == true)
        #expect(save.map(String.init(describing:))?.hasPrefix("cannot save the user: set") == true)
        #expect(clear.map(String.init(describing:))?.hasPrefix("cannot clear the user: delete") == true)
    }
}

/// A store on a locked device.
private struct LockedCrypt: CryptStoring {
    func get<Value>(_ key: CryptKey<Value>) throws -> Value? { throw CryptError(.unavailable(.locked), .get) }
    func set<Value>(_ value: Value, for key: CryptKey<Value>) throws { throw CryptError(.unavailable(.locked), .set) }
    func delete<Value>(_ key: CryptKey<Value>) throws { throw CryptError(.unavailable(.locked), .delete) }
    func contains<Value>(_ key: CryptKey<Value>) throws -> Bool { throw CryptError(.unavailable(.locked), .contains) }
    func deleteAll() throws { throw CryptError(.unavailable(.locked), .deleteAll) }
}
