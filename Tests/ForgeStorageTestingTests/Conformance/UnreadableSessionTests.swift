import ForgeCrypt
import ForgeKVStore
import ForgeStorage
import ForgeStorageTesting
import Synchronization
import Testing

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
