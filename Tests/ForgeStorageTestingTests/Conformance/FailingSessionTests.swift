import ForgeCrypt
import ForgeKVStore
import ForgeStorage
import ForgeStorageTesting
import Synchronization
import Testing

@Suite("An asynchronous store whose calls fail")
struct FailingAsyncStoreTests {
    @Test("names the operation and the key of each call in its error")
    func errors() async throws {
        let store = FaultingAsyncKVStore(LocalAsyncKVStore(InMemoryKVStore())) { _ in .before(.timeout) }
        var changes = KVBatch()
        try changes.set(KVKey<Int>("a"), value: 1)
        let batch = changes
        let capabilities = await #expect(throws: KVStoreError.self) { try await store.capabilities() }
        let entry = await #expect(throws: KVStoreError.self) { try await store.entry(named: "a") }
        let keys = await #expect(throws: KVStoreError.self) {
            try await store.keys(prefix: "p", after: nil, limit: 1)
        }
        let entries = await #expect(throws: KVStoreError.self) {
            try await store.entries(prefix: "p", after: nil, limit: 1, at: nil)
        }
        let commit = await #expect(throws: KVStoreError.self) { try await store.commit(batch, timeToLive: nil) }
        let errors = [capabilities, entry, keys, entries, commit]
        #expect(errors.map { $0?.operation } == [.capabilities, .read, .keys, .keys, .batch])
        #expect(errors.map { $0?.key } == [nil, "a", "p", "p", "a"])
        #expect(errors.allSatisfy { $0?.code == .timeout })
    }
}

@Suite("The checks of a session whose store fails")
struct FailingSessionTests {
    private static let checks = ConformanceChecks.failingSessions

    @Test("pass for the sessions in stores of values and of secrets", arguments: checks)
    func sound(_ check: ConformanceCheck<AsyncSessionStorageUnderTest>) async throws {
        let failure = Failure()
        let inValues = KVSessionStorage<ConformanceUser>(store: FailingKVStore(failure))
        try await check.run(on: failure.subject(inValues))
        let inSecrets = CryptSessionStorage<ConformanceUser>(store: FailingCrypt(failure))
        try await check.run(on: failure.subject(inSecrets))
        let asynchronous = FaultingAsyncKVStore(LocalAsyncKVStore(InMemoryKVStore())) { call in
            switch failure.current {
            case .refused: .before(.timeout)
            case .unknownOutcome where call.operation == .commit: .after(.unknownOutcome)
            default: nil
            }
        }
        let remote = AsyncKVSessionStorage<ConformanceUser>(store: asynchronous, key: "user")
        try await check.run(on: failure.subject(remote))
        try await check.run(on: failure.subject(SessionOfOwnErrors(base: remote)))
    }

    @Test("each detect their defect, and no other check does", arguments: Careless.Defect.allCases)
    func defects(_ defect: Careless.Defect) async {
        let report = await ConformanceSuite("sessions", Self.checks).run(on: "\(defect)") {
            let failure = Failure()
            return failure.subject(Careless(defect, failure))
        }
        #expect(report.violations.map(\.check) == [defect.promise], "\(report)")
    }

    @Test("pass for a session without a defect, and have a defect each")
    func completeness() async throws {
        let failure = Failure()
        for check in Self.checks { try await check.run(on: failure.subject(Careless(nil, failure))) }
        #expect(Set(Careless.Defect.allCases.map(\.promise)) == Set(Self.checks.map(\.description)))
    }

    @Test("name a subject that declares failures and has none")
    func undeclared() async {
        let storage = InMemorySessionStorage<ConformanceUser>()
        let checks = Self.checks + ConformanceChecks.unreadableSessions
        let report = await ConformanceSuite("sessions", checks).run(on: "memory") {
            AsyncSessionStorageUnderTest(storage, other: storage)
        }
        #expect(report.violations.count == checks.count, "\(report)")
        let reasons = report.violations.map { "\($0)".contains(": setFailing is nil (") ? "setFailing" : "\($0)" }
        #expect(reasons.dropLast().allSatisfy { $0 == "setFailing" }, "\(report)")
        #expect(reasons.last?.contains(": makeUnreadable is nil (") == true, "\(report)")
    }

    /// The failure of the calls of a store.
    final class Failure: Sendable {
        private let state = Mutex<SessionFailure?>(nil)

        var current: SessionFailure? { state.withLock { $0 } }

        func subject(_ storage: any AsyncSessionStorage<ConformanceUser>) -> AsyncSessionStorageUnderTest {
            var subject = AsyncSessionStorageUnderTest(storage, other: storage)
            subject.setFailing = { failure in self.state.withLock { $0 = failure } }
            return subject
        }
    }

    private final class FailingKVStore: KVStoring, KVLayer {
        let base = InMemoryKVStore()
        private let failure: Failure

        init(_ failure: Failure) { self.failure = failure }

        func read<T>(_ key: KVKey<T>) throws -> T? {
            if failure.current == .refused { throw KVStoreError(.timeout, .read, key: key.name) }
            return try base.read(key)
        }

        func set<T>(_ key: KVKey<T>, value: T) throws {
            try change(.set, key.name) { try base.set(key, value: value) }
        }

        func remove<T>(_ key: KVKey<T>) throws {
            try change(.remove, key.name) { try base.remove(key) }
        }

        private func change(_ operation: KVStoreError.Operation, _ key: String, _ body: () throws -> Void) throws {
            if failure.current == .refused { throw KVStoreError(.readOnly, operation, key: key) }
            try body()
            if failure.current == .unknownOutcome { throw KVStoreError(.durabilityUnknown, operation, key: key) }
        }
    }

    private final class FailingCrypt: CryptStoring {
        private let base = InMemoryCrypt()
        private let failure: Failure

        init(_ failure: Failure) { self.failure = failure }

        func get<Value>(_ key: CryptKey<Value>) throws -> Value? {
            if failure.current == .refused { throw CryptError(.noSpace, .get, key: key.key) }
            return try base.get(key)
        }

        func set<Value>(_ value: Value, for key: CryptKey<Value>) throws {
            try change(.set, key.key) { try base.set(value, for: key) }
        }

        func delete<Value>(_ key: CryptKey<Value>) throws {
            try change(.delete, key.key) { try base.delete(key) }
        }

        func contains<Value>(_ key: CryptKey<Value>) throws -> Bool { try base.contains(key) }

        func deleteAll() throws { try base.deleteAll() }

        private func change(_ operation: CryptError.Operation, _ key: String, _ body: () throws -> Void) throws {
            if failure.current == .refused { throw CryptError(.noSpace, operation, key: key) }
            try body()
            if failure.current == .unknownOutcome { throw CryptError(.durabilityUnknown, operation, key: key) }
        }
    }

    /// A session in memory that misjudges one kind of failure.
    final class Careless: AsyncSessionStorage {
        enum Defect: CaseIterable {
            case takesRefusalForAbsence, takesUnknownForRefused

            var promise: String {
                switch self {
                case .takesRefusalForAbsence: "a call that the store refuses is an error and keeps the user"
                case .takesUnknownForRefused: "a change of unknown outcome is reported as such"
                }
            }
        }

        private struct Refused: Error {}

        private let defect: Defect?
        private let failure: Failure
        private let user = Mutex<ConformanceUser?>(nil)

        init(_ defect: Defect?, _ failure: Failure) {
            self.defect = defect
            self.failure = failure
        }

        func saveUser(_ user: ConformanceUser) async throws {
            try change(to: user, refusal: .cantSave(Refused()))
        }

        func loadUser() async throws -> ConformanceUser? {
            guard failure.current == .refused else { return user.withLock { $0 } }
            if defect == .takesRefusalForAbsence { return nil }
            throw SessionStorageError.unavailable(Refused())
        }

        func clearUser() async throws { try change(to: nil, refusal: .cantClear(Refused())) }

        private func change(to user: ConformanceUser?, refusal: SessionStorageError) throws {
            if failure.current == .refused { throw refusal }
            self.user.withLock { $0 = user }
            guard failure.current == .unknownOutcome else { return }
            throw defect == .takesUnknownForRefused ? refusal : SessionStorageError.unknownOutcome(Refused())
        }
    }
}

/// A session that throws errors of its own.
private struct SessionOfOwnErrors: AsyncSessionStorage {
    private struct Failed: Error {}

    let base: AsyncKVSessionStorage<ConformanceUser>

    func saveUser(_ user: ConformanceUser) async throws {
        do { try await base.saveUser(user) } catch { throw Failed() }
    }

    func loadUser() async throws -> ConformanceUser? {
        do { return try await base.loadUser() } catch { throw Failed() }
    }

    func clearUser() async throws {
        do { try await base.clearUser() } catch { throw Failed() }
    }
}

@Suite("The check of a damaged session")
struct UnreadableSessionTests {
    private static let check = ConformanceChecks.unreadableSessions

    @Test("passes for the sessions in stores of values and of secrets", arguments: check)
    func sound(_ check: ConformanceCheck<AsyncSessionStorageUnderTest>) async throws {
        let (values, secrets) = (InMemoryKVStore(), InMemoryCrypt())
        let asynchronous = LocalAsyncKVStore(InMemoryKVStore())
        let (key, secret) = (KVKey<[Int]>("user"), CryptKey<[Int]>(key: "user"))
        let inValues = KVSessionStorage<ConformanceUser>(store: values, key: "user")
        var subject = AsyncSessionStorageUnderTest(inValues, other: inValues)
        subject.makeUnreadable = { try values.set(key, value: [1]) }
        try await check.run(on: subject)
        let inSecrets = CryptSessionStorage<ConformanceUser>(store: secrets, key: "user")
        subject = AsyncSessionStorageUnderTest(inSecrets, other: inSecrets)
        subject.makeUnreadable = { try secrets.set([1], for: secret) }
        try await check.run(on: subject)
        let remote = AsyncKVSessionStorage<ConformanceUser>(store: asynchronous, key: "user")
        subject = AsyncSessionStorageUnderTest(remote, other: remote)
        subject.makeUnreadable = { try await asynchronous.set(key, value: [1]) }
        try await check.run(on: subject)
        let own = SessionOfOwnErrors(base: remote)
        subject = AsyncSessionStorageUnderTest(own, other: own)
        subject.makeUnreadable = { try await asynchronous.set(key, value: [1]) }
        try await check.run(on: subject)
    }

    @Test("fails for a session that takes what it cannot read for an absent user, or for an unavailable one")
    func defects() async throws {
        for defect in [Careless.Defect.absent, .unavailable] {
            let careless = Careless(defect)
            var subject = AsyncSessionStorageUnderTest(careless, other: careless)
            subject.makeUnreadable = { careless.damage() }
            let report = await ConformanceSuite("sessions", Self.check).run(on: "\(defect)") { [subject] in subject }
            #expect(report.violations.count == 1)
        }
    }

    /// A session in memory that misjudges a damaged user.
    private final class Careless: AsyncSessionStorage {
        enum Defect {
            case absent, unavailable
        }

        private struct Unreadable: Error {}

        private let defect: Defect
        private let state = Mutex<(user: ConformanceUser?, isDamaged: Bool)>((nil, false))

        init(_ defect: Defect) { self.defect = defect }

        func damage() { state.withLock { $0.isDamaged = true } }

        func saveUser(_ user: ConformanceUser) async throws { state.withLock { $0 = (user, false) } }

        func loadUser() async throws -> ConformanceUser? {
            let (user, isDamaged) = state.withLock { $0 }
            guard isDamaged else { return user }
            if defect == .unavailable { throw SessionStorageError.unavailable(Unreadable()) }
            return nil
        }

        func clearUser() async throws { state.withLock { $0 = (nil, false) } }
    }
}
