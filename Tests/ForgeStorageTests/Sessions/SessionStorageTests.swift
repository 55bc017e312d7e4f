import ForgeStorage
import ForgeStorageTesting
import Testing

@Suite("Storages of a session")
struct SessionStorageTests {
    @Test("in memory", arguments: ConformanceChecks.sessionStorage)
    func memory(_ check: ConformanceCheck<any SessionStorage<ConformanceUser>>) async throws {
        try await check.run(on: InMemorySessionStorage<ConformanceUser>())
    }

    @Test("a type of the app's own with just the three calls", arguments: ConformanceChecks.sessionStorage)
    func own(_ check: ConformanceCheck<any SessionStorage<ConformanceUser>>) async throws {
        try await check.run(on: OwnStorage())
    }

    @Test("storage in memory needs no try, nor does a manager over it")
    func neverFails() {
        let manager = SessionManager(storage: InMemorySessionStorage(user: 1))
        #expect(manager.loadUser() == 1)
        manager.saveUser(2)
        #expect(manager.loadUser() == 2)
        manager.clearUser()
        #expect(manager.loadUser() == nil)
    }

    @Test("a manager throws the error of its storage, by type")
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

    @Test("a manager over storage that can be shared can be shared")
    func sendable() async {
        let manager = SessionManager(storage: InMemorySessionStorage<Int>())
        await withTaskGroup(of: Void.self) { group in
            for user in 0..<100 { group.addTask { manager.saveUser(user) } }
        }
        #expect((0..<100).contains(manager.loadUser() ?? -1))
    }
}

/// The least that an app would write for its tests; not even safe to share.
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
