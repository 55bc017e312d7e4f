import ForgeKVStore
import ForgeStorage
import ForgeStorageTesting
import Foundation
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
        case loadsTheFirst = "a session manager and its storage see the same user"
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
