public import ForgeStorage
import Synchronization

// Memory safety: One thread uses the storage and its managers.

/// A new, empty asynchronous session storage and what the checks do with it.
public struct AsyncSessionStorageUnderTest: Sendable {
    /// The storage.
    public var storage: any AsyncSessionStorage<ConformanceUser>

    /// The same session as another process accesses it.
    public var other: any AsyncSessionStorage<ConformanceUser>

    /// The time from saving a user to the end of the session; nil if it does not end.
    public var lifetime: Duration?

    /// By how much a session may outlive its lifetime.
    public var tolerance: Duration

    /// Replaces the saved user by a value that is no user, for the check that needs
    /// ``ConformanceCapability/unreadableUsers``.
    public var makeUnreadable: (@Sendable () async throws -> Void)?

    /// Makes the calls of the store below fail in a way, or succeed again (nil), for the checks that need
    /// ``ConformanceCapability/failingSessions``.
    public var setFailing: (@Sendable (SessionFailure?) async throws -> Void)?

    /// Lets time pass: waits, or advances the clock of the storage.
    public var pass: @Sendable (Duration) async throws -> Void

    /// Creates a subject.
    public init(
        _ storage: any AsyncSessionStorage<ConformanceUser>, other: any AsyncSessionStorage<ConformanceUser>,
        lifetime: Duration? = nil, tolerance: Duration = .zero,
        pass: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    ) {
        self.storage = storage
        self.other = other
        self.lifetime = lifetime
        self.tolerance = tolerance
        self.pass = pass
    }
}

/// How the calls of the store below a session storage fail.
public enum SessionFailure: Hashable, Sendable, CaseIterable {
    /// Every call throws and changes nothing.
    case refused

    /// Changes throw that their outcome is unknown, whether they are carried out or not; reads succeed.
    case unknownOutcome
}

/// The user for the checks of session storages.
public struct ConformanceUser: Codable, Hashable, Sendable {
    public var id: String
    public var name: String
    public var email: String?

    /// Creates a user.
    public init(id: String, name: String, email: String? = nil) {
        self.id = id
        self.name = name
        self.email = email
    }
}

extension ConformanceChecks {
    /// The promises of a session storage.
    public static let sessionStorage: [ConformanceCheck<any SessionStorage<ConformanceUser>>] =
        sessions.map { check in check.on { SynchronousSession(base: $0) } } + managedSessions

    /// The promises of an asynchronous session storage. Each check needs a new, empty storage.
    public static let asyncSessionStorage: [ConformanceCheck<AsyncSessionStorageUnderTest>] =
        sessions.map { check in check.on { $0.storage } } + sharedSessions

    /// The promise of a session storage whose saved user another program can damage
    /// (``AsyncSessionStorageUnderTest/makeUnreadable``).
    public static let unreadableSessions: [ConformanceCheck<AsyncSessionStorageUnderTest>] = [
        ConformanceCheck(
            "a saved value that is no user is an error, never an absent user, until a user is saved or it is cleared",
            needs: [.unreadableUsers]
        ) { subject in
            guard let makeUnreadable = subject.makeUnreadable else {
                throw ConformanceViolation("makeUnreadable is nil")
            }
            for clears in [false, true] {
                try await subject.storage.saveUser(john)
                try await makeUnreadable()
                for storage in [subject.storage, subject.other, subject.storage] {
                    try await expectUndecodable { try await storage.loadUser() }
                }
                if clears { try await subject.storage.clearUser() } else { try await subject.storage.saveUser(jane) }
                try await expectEqual(
                    subject.storage.loadUser(), clears ? nil : jane,
                    clears ? "the user after clearing" : "the user saved")
            }
        }
    ]

    /// The promises of a session storage over a store whose calls fail (``AsyncSessionStorageUnderTest/setFailing``).
    ///
    /// A storage may throw errors of its own; a `SessionStorageError` must be that of the failure.
    public static let failingSessions: [ConformanceCheck<AsyncSessionStorageUnderTest>] = [
        ConformanceCheck("a call that the store refuses is an error and keeps the user", needs: [.failingSessions]) {
            subject in
            let (storage, setFailing) = (subject.storage, try failing(subject))
            try await storage.saveUser(john)
            try await setFailing(.refused)
            try await expectFailure("saveUser(jane) that the store refuses", "cantSave", \.isCantSave) {
                try await storage.saveUser(jane)
            }
            try await expectFailure("loadUser() that the store refuses", "unavailable", \.isUnavailable) {
                _ = try await storage.loadUser()
            }
            try await expectFailure("clearUser() that the store refuses", "cantClear", \.isCantClear) {
                try await storage.clearUser()
            }
            try await setFailing(nil)
            try await expectEqual(storage.loadUser(), john, "the user after the failures")
        },
        ConformanceCheck("a change of unknown outcome is reported as such", needs: [.failingSessions]) { subject in
            let (storage, setFailing) = (subject.storage, try failing(subject))
            try await storage.saveUser(john)
            try await setFailing(.unknownOutcome)
            try await expectFailure("saveUser(jane) of unknown outcome", "unknownOutcome", \.isUnknownOutcome) {
                try await storage.saveUser(jane)
            }
            let user = try await storage.loadUser()
            try expect(user == john || user == jane, "the user after saveUser(jane) of unknown outcome is another one")
            try await expectFailure("clearUser() of unknown outcome", "unknownOutcome", \.isUnknownOutcome) {
                try await storage.clearUser()
            }
            try await setFailing(nil)
            try await storage.saveUser(jane)
            try await expectEqual(storage.loadUser(), jane, "the user after the failures")
        },
    ]

    private static func failing(
        _ subject: AsyncSessionStorageUnderTest
    ) throws -> @Sendable (SessionFailure?) async throws -> Void {
        guard let setFailing = subject.setFailing else { throw ConformanceViolation("setFailing is nil") }
        return setFailing
    }

    private static func expectFailure(
        _ call: String, _ expected: String, _ isExpected: (SessionStorageError) -> Bool, _ body: () async throws -> Void
    ) async throws {
        do {
            try await body()
        } catch let error as SessionStorageError {
            try expect(isExpected(error), "\(call): expected \(expected), got \(error)")
            return
        } catch {
            return
        }
        throw ConformanceViolation("\(call): expected \(expected), but nothing was thrown")
    }

    private static func expectUndecodable(_ load: () async throws -> ConformanceUser?) async throws {
        let user: ConformanceUser?
        do {
            user = try await load()
        } catch let error as SessionStorageError {
            if case .undecodable = error { return }
            throw ConformanceViolation("loadUser(): expected undecodable, got \(error)")
        } catch {
            return
        }
        throw ConformanceViolation("loadUser(): expected an error, got \(user.map { "\($0)" } ?? "nil")")
    }

    private static let sessions: [ConformanceCheck<any AsyncSessionStorage<ConformanceUser>>] = [
        ConformanceCheck("a new storage is empty") { storage in
            try await expectEqual(storage.loadUser(), nil, "the user of a new storage")
        },
        ConformanceCheck("a saved user can be loaded repeatedly") { storage in
            try await storage.saveUser(john)
            try await expectEqual(storage.loadUser(), john, "the user, the first time")
            try await expectEqual(storage.loadUser(), john, "the user, the second time")
        },
        ConformanceCheck("saving replaces the previous user") { storage in
            try await storage.saveUser(john)
            try await storage.saveUser(jane)
            try await expectEqual(storage.loadUser(), jane, "the user after the second save")
        },
        ConformanceCheck("clearing removes the user") { storage in
            try await storage.saveUser(john)
            try await storage.clearUser()
            try await expectEqual(storage.loadUser(), nil, "the user after clearing")
        },
        ConformanceCheck("clearing an empty storage succeeds") { storage in
            try await storage.clearUser()
            try await storage.clearUser()
            try await expectEqual(storage.loadUser(), nil, "the user after clearing twice")
        },
        ConformanceCheck("a user can be saved after clearing") { storage in
            try await storage.saveUser(john)
            try await storage.clearUser()
            try await storage.saveUser(jane)
            try await expectEqual(storage.loadUser(), jane, "the user after clearing and saving")
        },
        ConformanceCheck("nil and empty fields are preserved") { storage in
            let user = ConformanceUser(id: "", name: "", email: nil)
            try await storage.saveUser(user)
            try await expectEqual(storage.loadUser(), user, "the user of empty parts")
        },
        ConformanceCheck("any text round-trips byte for byte") { storage in
            for name in [
                "Jos\u{e9}", "Jose\u{301}", "👩‍👩‍👧‍👦", "\0\u{1}\u{7f}\n\"\\", String(repeating: "ab\u{1F600}", count: 20_000),
            ] {
                try await storage.saveUser(ConformanceUser(id: "1", name: name))
                let loaded = try await storage.loadUser()
                try expect(
                    loaded?.name.utf8.elementsEqual(name.utf8) ?? false,
                    "a name of \(name.utf8.count) bytes was changed")
            }
        },
    ]

    private static let managedSessions: [ConformanceCheck<any SessionStorage<ConformanceUser>>] = [
        ConformanceCheck(
            "a session manager and its storage see the same user, and its calls of the storage never overlap"
        ) { storage in
            try checkManagers(over: storage)
            let calls = ObservedCalls(of: storage)
            // A manager takes a storage that no one else calls, which holds here.
            nonisolated(unsafe) let shared: any SessionStorage<ConformanceUser> = calls
            let manager = unsafe SessionManager(anyStorage: shared)
            try await racing(threads: 3) { thread in
                switch thread {
                case 0: try manager.saveUser(john)
                case 1: _ = try manager.loadUser()
                default: try manager.clearUser()
                }
            }
            try expect(
                !calls.haveOverlapped,
                "saveUser, loadUser and clearUser of a manager on a thread each: calls of its storage have overlapped")
        }
    ]

    private static let sharedSessions: [ConformanceCheck<AsyncSessionStorageUnderTest>] = [
        ConformanceCheck("another process loads the user that was saved last, and none after clearing") { subject in
            for user in [john, jane] {
                try await subject.storage.saveUser(user)
                try await expectEqual(subject.other.loadUser(), user, "the user that the other process loads")
            }
            try await subject.other.saveUser(john)
            try await expectEqual(subject.storage.loadUser(), john, "the user that the other process saved")
            try await subject.other.clearUser()
            try await expectEqual(subject.storage.loadUser(), nil, "the user after the other process cleared it")
        },
        ConformanceCheck("a session ends its lifetime after the last save, not earlier; without a lifetime, never") {
            subject in
            guard let lifetime = subject.lifetime else {
                try await subject.storage.saveUser(john)
                try await subject.pass(.seconds(1))
                return try await expectEqual(subject.storage.loadUser(), john, "the user after a second")
            }
            for attempt in 1... {
                try await subject.storage.saveUser(john)
                try await subject.pass(lifetime / 2)
                let start = ContinuousClock.now
                try await subject.storage.saveUser(jane)
                try await subject.pass(lifetime / 2)
                let user = try await subject.storage.loadUser()
                // A busy machine may have let the whole lifetime pass: then once more.
                if user == nil, ContinuousClock.now - start >= lifetime, attempt < 10 { continue }
                try expectEqual(user, jane, "the user before the end of the session")
                break
            }
            try await subject.pass(lifetime / 2 + subject.tolerance)
            try await expectEqual(subject.storage.loadUser(), nil, "the user after the end of the session")
            try await expectEqual(subject.other.loadUser(), nil, "the user after the end, in the other process")
        },
    ]

    private static let john = ConformanceUser(id: "123", name: "John Doe", email: "john@example.com")
    private static let jane = ConformanceUser(id: "456", name: "Jane Roe", email: "jane@example.com")

    private static func checkManagers<Storage: SessionStorage>(over storage: Storage) throws
    where Storage.User == ConformanceUser {
        // Only one thread uses the storage and its managers.
        nonisolated(unsafe) let shared = storage
        let manager = unsafe SessionManager(storage: shared)
        try checkManager(manager, over: storage)
        nonisolated(unsafe) let chosen: any SessionStorage<ConformanceUser> = storage
        let managerOfAny = unsafe SessionManager(anyStorage: chosen)
        try checkManager(managerOfAny, over: storage)
    }

    private static func checkManager<Failure: Error>(
        _ manager: SessionManager<ConformanceUser, Failure>, over storage: any SessionStorage<ConformanceUser>
    ) throws {
        try expectEqual(try manager.loadUser(), nil, "the manager's user at first")
        try manager.saveUser(john)
        try expectEqual(try storage.loadUser(), john, "the storage's user after the manager saved one")
        try storage.saveUser(jane)
        try expectEqual(try manager.loadUser(), jane, "the manager's user after the storage saved another")
        try manager.clearUser()
        try expectEqual(try storage.loadUser(), nil, "the storage's user after the manager cleared it")
    }
}

/// A storage that notes whether its calls overlap, and gives the first ones time to.
private final class ObservedCalls: SessionStorage, @unchecked Sendable {
    typealias User = ConformanceUser
    typealias Failure = any Error

    private let base: any SessionStorage<ConformanceUser>
    private let state = Mutex((running: 0, haveOverlapped: false))
    private let meeting = CheckMeeting()

    init(of base: any SessionStorage<ConformanceUser>) { self.base = base }

    var haveOverlapped: Bool { state.withLock(\.haveOverlapped) }

    func saveUser(_ user: ConformanceUser) throws { try alone { try base.saveUser(user) } }
    func loadUser() throws -> ConformanceUser? { try alone { try base.loadUser() } ?? nil }
    func clearUser() throws { try alone { try base.clearUser() } }

    /// Calls `body`, unless another call has overlapped with one.
    @discardableResult
    private func alone<Result>(_ body: () throws -> Result) throws -> Result? {
        state.withLock { state in
            state.running += 1
            if state.running > 1 { state.haveOverlapped = true }
        }
        defer { state.withLock { $0.running -= 1 } }
        meeting.arrive()
        return haveOverlapped ? nil : try body()
    }
}

/// A synchronous storage as an asynchronous one. Only one task uses it at a time.
private struct SynchronousSession: AsyncSessionStorage, @unchecked Sendable {
    let base: any SessionStorage<ConformanceUser>

    func saveUser(_ user: ConformanceUser) async throws { try base.saveUser(user) }
    func loadUser() async throws -> ConformanceUser? { try base.loadUser() }
    func clearUser() async throws { try base.clearUser() }
}

extension SessionStorageError {
    fileprivate var isCantSave: Bool { if case .cantSave = self { true } else { false } }
    fileprivate var isUnavailable: Bool { if case .unavailable = self { true } else { false } }
    fileprivate var isCantClear: Bool { if case .cantClear = self { true } else { false } }
    fileprivate var isUnknownOutcome: Bool { if case .unknownOutcome = self { true } else { false } }
}
