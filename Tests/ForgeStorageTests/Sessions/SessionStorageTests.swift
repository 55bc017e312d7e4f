import Crypto
import ForgeCrypt
import ForgeKVStore
import ForgeStorage
import ForgeStorageTesting
import Foundation
import Synchronization
import Testing

@Suite("Storages of a session")
struct SessionStorageTests {
    @Test("in memory", arguments: ConformanceChecks.sessionStorage)
    func memory(_ check: ConformanceCheck<any SessionStorage<ConformanceUser>>) async throws {
        try await check.run(on: InMemorySessionStorage<ConformanceUser>())
    }

    @Test("a custom type with only the three required calls", arguments: ConformanceChecks.sessionStorage)
    func own(_ check: ConformanceCheck<any SessionStorage<ConformanceUser>>) async throws {
        try await check.run(on: OwnStorage())
    }

    @Test("each check fails on a storage that breaks its promise", arguments: BrokenSessionStorage.Defect.allCases)
    func defects(_ defect: BrokenSessionStorage.Defect) async {
        var failed: [String] = []
        for check in ConformanceChecks.sessionStorage {
            do { try await check.run(on: BrokenSessionStorage(defect)) } catch { failed.append(check.description) }
        }
        #expect(failed.contains(defect.rawValue))
    }

    @Test("and there is a defect for each of them")
    func completeness() {
        #expect(
            Set(BrokenSessionStorage.Defect.allCases.map(\.rawValue))
                == Set(ConformanceChecks.sessionStorage.map(\.description)))
    }

    @Test("code that a storage runs may use the session, and so may a user that is released")
    func reentrancy() throws {
        let store = InMemoryKVStore()
        let session = SessionManager(storage: KVSessionStorage<ReenteringUser>(store: store))
        let calls = CallCount()
        try ReenteringUser.$calling.withValue({
            calls.count += 1
            do { _ = try session.loadUser() } catch {}
        }) {
            try session.saveUser(ReenteringUser(name: "a"))
        }
        #expect(calls.count > 0)
        #expect(try session.loadUser()?.name == "a")

        let memory = InMemorySessionStorage<ReleasedUser>()
        for number in 0..<3 {
            memory.saveUser(ReleasedUser(number) { calls.count += memory.loadUser() == nil ? 0 : 1 })
        }
        memory.clearUser()
        #expect(memory.loadUser() == nil)
    }

    @Test("in-memory storage needs no try, nor does a manager over it")
    func neverFails() {
        let manager = SessionManager(storage: InMemorySessionStorage(user: 1))
        #expect(manager.loadUser() == 1)
        manager.saveUser(2)
        #expect(manager.loadUser() == 2)
        manager.clearUser()
        #expect(manager.loadUser() == nil)
    }

    @Test("a manager throws the typed error of its storage")
    func typedErrors() {
        let manager = SessionManager(storage: FailingStorage())
        #expect(throws: FailingStorage.Refused.self) { try manager.saveUser("a") }
        #expect(throws: FailingStorage.Refused.self) { try manager.clearUser() }
        do throws(FailingStorage.Refused) {
            _ = try manager.loadUser()
            Issue.record("nothing was thrown")
        } catch {
            #expect(error == FailingStorage.Refused())
        }
    }

    @Test("storage can be chosen at run time")
    func chosen() throws {
        for isKept in [true, false] {
            let storage: any SessionStorage<String> =
                isKept ? KVSessionStorage(store: InMemoryKVStore()) : InMemorySessionStorage()
            let manager = SessionManager(anyStorage: storage)
            try manager.saveUser("Ada")
            #expect(try manager.loadUser() == "Ada")
            try manager.clearUser()
            #expect(try manager.loadUser() == nil)
        }
    }

    @Test("a manager can be shared, even over storage that cannot")
    func sharedManager() async {
        let manager = SessionManager(storage: OwnStorage())
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<100 {
                group.addTask { manager.saveUser(ConformanceUser(id: "\(number)", name: "Ada")) }
            }
        }
        #expect(manager.loadUser()?.name == "Ada")
    }

    @Test("a manager over storage that can be shared can be shared")
    func sendable() async {
        let manager = SessionManager(storage: InMemorySessionStorage<Int>())
        await withTaskGroup(of: Void.self) { group in
            for user in 0..<100 { group.addTask { manager.saveUser(user) } }
        }
        #expect((0..<100).contains(manager.loadUser() ?? -1))
    }
}

/// A minimal custom storage for tests; not thread-safe.
private final class OwnStorage: SessionStorage {
    private var user: ConformanceUser?

    func saveUser(_ user: ConformanceUser) { self.user = user }
    func loadUser() -> ConformanceUser? { user }
    func clearUser() { user = nil }
}

private struct FailingStorage: SessionStorage {
    struct Refused: Error, Equatable {}

    func saveUser(_ user: String) throws(Refused) { throw Refused() }
    func loadUser() throws(Refused) -> String? { throw Refused() }
    func clearUser() throws(Refused) { throw Refused() }
}

/// A storage with one defect, to test that the corresponding check fails.
final class BrokenSessionStorage: SessionStorage {
    /// The description of the check that must fail.
    enum Defect: String, CaseIterable, Sendable {
        case hasAUser = "a new storage is empty"
        case loadsOnce = "a saved user can be loaded repeatedly"
        case keepsTheFirst = "saving replaces the previous user"
        case clearsNothing = "clearing removes the user"
        case refusesToClearNothing = "clearing an empty storage succeeds"
        case closes = "a user can be saved after clearing"
        case fillsIn = "nil and empty fields are preserved"
        case normalises = "any text round-trips byte for byte"
        case loadsTheFirst =
            "a session manager and its storage see the same user, and its calls of the storage never overlap"
    }

    typealias User = ConformanceUser
    typealias Failure = any Error

    private struct NothingToClear: Error {}

    private let defect: Defect
    private var user: ConformanceUser?
    private var isClosed = false
    private var firstLoaded: ConformanceUser??

    init(_ defect: Defect) {
        self.defect = defect
        if defect == .hasAUser { user = ConformanceUser(id: "0", name: "Nobody") }
    }

    func saveUser(_ user: ConformanceUser) {
        if isClosed { return }
        if defect == .keepsTheFirst, self.user != nil { return }
        self.user = user
        if defect == .fillsIn { self.user?.email = user.email ?? "" }
        if defect == .normalises { self.user?.name = user.name.precomposedStringWithCanonicalMapping }
    }

    func loadUser() -> ConformanceUser? {
        if defect == .loadsTheFirst {
            firstLoaded = firstLoaded ?? .some(user)
            return firstLoaded ?? nil
        }
        defer { if defect == .loadsOnce { user = nil } }
        return user
    }

    func clearUser() throws {
        if defect == .refusesToClearNothing, user == nil { throw NothingToClear() }
        if defect != .clearsNothing { user = nil }
        if defect == .closes { isClosed = true }
    }
}

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
        let unsure = CryptSessionStorage<User>(store: LockedCrypt(code: .durabilityUnknown))
        for call in [{ try unsure.saveUser(User(id: 1)) }, { try unsure.clearUser() }] as [() throws -> Void] {
            let error = #expect(throws: SessionStorageError.self) { try call() }
            guard case .unknownOutcome = try #require(error) else {
                Issue.record("expected unknownOutcome, got \(String(describing: error))")
                continue
            }
        }
    }
}

/// A store on a locked device, or one whose calls fail otherwise.
private struct LockedCrypt: CryptStoring {
    var code = CryptError.Code.unavailable(.locked)

    func get<Value>(_ key: CryptKey<Value>) throws -> Value? { throw CryptError(code, .get) }
    func set<Value>(_ value: Value, for key: CryptKey<Value>) throws { throw CryptError(code, .set) }
    func delete<Value>(_ key: CryptKey<Value>) throws { throw CryptError(code, .delete) }
    func contains<Value>(_ key: CryptKey<Value>) throws -> Bool { throw CryptError(code, .contains) }
    func deleteAll() throws { throw CryptError(code, .deleteAll) }
}

/// A user whose encoding calls code of the app.
private struct ReenteringUser: Codable, Sendable {
    @TaskLocal static var calling: (@Sendable () -> Void)?

    let name: String

    init(name: String) { self.name = name }

    func encode(to encoder: any Encoder) throws {
        Self.calling?()
        var container = encoder.singleValueContainer()
        try container.encode(name)
    }

    init(from decoder: any Decoder) throws { name = try decoder.singleValueContainer().decode(String.self) }
}

/// A user that calls code of the app when it is released.
private final class ReleasedUser: Sendable {
    private let release: @Sendable () -> Void

    init(_ number: Int, _ release: @escaping @Sendable () -> Void) { self.release = release }

    deinit { release() }
}

private final class CallCount: Sendable {
    private let value = Mutex(0)

    var count: Int {
        get { value.withLock(\.self) }
        set { value.withLock { $0 = newValue } }
    }
}
