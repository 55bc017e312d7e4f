import ForgeCrypt
import ForgeFileSystem
import ForgeKVStore
import ForgeStorage
import ForgeStorageTesting
import Foundation
import Synchronization
import Testing

@Suite("A session in an asynchronous store")
struct AsyncSessionStorageTests {
    typealias Check = ConformanceCheck<AsyncSessionStorageUnderTest>

    struct User: Codable, Hashable {
        var id: Int
    }

    // MARK: Conformance

    @Test("with a lifetime, over a local store with times to live", arguments: ConformanceChecks.asyncSessionStorage)
    func conformsWithLifetime(_ check: Check) async throws {
        let clock = Clock()
        let base = ExpiringKVStore(InMemoryKVStore(), now: { clock.now })
        let storages = [base, base].map {
            AsyncKVSessionStorage<ConformanceUser>(
                store: LocalAsyncKVStore($0), key: "a", lifetime: .seconds(3_600))
        }
        try await check.run(
            on: AsyncSessionStorageUnderTest(
                storages[0], other: storages[1], lifetime: .seconds(3_600), pass: { clock.advance($0) }))
    }

    @Test("without a lifetime, over any local store", arguments: ConformanceChecks.asyncSessionStorage)
    func conforms(_ check: Check) async throws {
        let store = LocalAsyncKVStore(InMemoryKVStore())
        let storage = AsyncKVSessionStorage<ConformanceUser>(store: store, key: "a")
        let other = AsyncKVSessionStorage<ConformanceUser>(store: store, key: "a")
        try await check.run(on: AsyncSessionStorageUnderTest(storage, other: other, pass: { _ in }))
    }

    @Test("over a namespace of a store that is recorded", arguments: ConformanceChecks.asyncSessionStorage)
    func conformsInLayers(_ check: Check) async throws {
        let store = RecordingKVStore(LocalAsyncKVStore(InMemoryKVStore()))
        let namespace = NamespacedKVStore(store, namespace: "sessions")
        let storage = AsyncKVSessionStorage<ConformanceUser>(store: namespace, key: "a")
        try await check.run(on: AsyncSessionStorageUnderTest(storage, other: storage, pass: { _ in }))
        #expect(store.calls.allSatisfy { Set($0.names) == ["sessions/a"] })
    }

    @Test("synchronous storages are asynchronous ones", arguments: ConformanceChecks.asyncSessionStorage)
    func synchronous(_ check: Check) async throws {
        let storages: [any AsyncSessionStorage<ConformanceUser>] = [
            InMemorySessionStorage(), KVSessionStorage(store: InMemoryKVStore()),
            CryptSessionStorage(store: InMemoryCrypt()),
        ]
        for storage in storages {
            try await check.run(on: AsyncSessionStorageUnderTest(storage, other: storage, pass: { _ in }))
        }
    }

    // MARK: Checks

    @Test("each check fails on a storage that breaks its promise", arguments: SharedSessionDefect.allCases)
    func defects(_ defect: SharedSessionDefect) async throws {
        let check = try #require(ConformanceChecks.asyncSessionStorage.first { $0.description == defect.promise })
        try await check.run(on: SharedSessionDefect.subject(nil))
        await #expect(throws: ConformanceViolation.self) {
            try await check.run(on: SharedSessionDefect.subject(defect))
        }
    }

    @Test("and there is a defect for each of them")
    func completeness() {
        let synchronous = Set(BrokenSessionStorage.Defect.allCases.map(\.rawValue))
        let shared = Set(SharedSessionDefect.allCases.map(\.promise))
        #expect(
            Set(ConformanceChecks.asyncSessionStorage.map(\.description)).subtracting(synchronous)
                .symmetricDifference(shared) == [])
    }

    // MARK: Values and errors

    @Test("sessions with different keys are different values; one call is one request")
    func oneValue() async throws {
        let store = RecordingKVStore(LocalAsyncKVStore(InMemoryKVStore()))
        let first = AsyncKVSessionStorage<User>(store: store, key: "first")
        let second = AsyncKVSessionStorage<User>(store: store, key: "second")
        try await first.saveUser(User(id: 1))
        try await second.saveUser(User(id: 2))
        try await first.clearUser()
        #expect(try await first.loadUser() == nil)
        #expect(try await second.loadUser() == User(id: 2))
        let calls = store.calls.map { "\($0)" }
        #expect(
            calls == [
                #"commit "first""#, #"commit "second""#, #"commit "first""#, #"entry "first""#, #"entry "second""#,
            ])
    }

    @Test("an undecodable user, or one that a later version saved, is an error and is kept until a user is saved")
    func undecodable() async throws {
        let store = LocalAsyncKVStore(InMemoryKVStore())
        let session = AsyncKVSessionStorage<User>(store: store, key: "a")
        try await store.set(KVKey<String>("a"), value: "no user")
        #expect(await session.code { _ = try await $0.loadUser() } == "undecodable")
        #expect(try await store.read(KVKey<String>("a")) == "no user")
        let later = KVKey<User>("a", migrations: [.from(1) { (old: Int) in User(id: old) }])
        try await store.set(later, value: User(id: 2))
        #expect(await session.code { _ = try await $0.loadUser() } == "undecodable")
        try await session.saveUser(User(id: 3))
        #expect(try await session.loadUser() == User(id: 3))
    }

    @Test("a lifetime in a store without times to live is refused")
    func refused() async throws {
        let session = AsyncKVSessionStorage<User>(
            store: LocalAsyncKVStore(InMemoryKVStore()), key: "a", lifetime: .seconds(1))
        #expect(await session.code { try await $0.saveUser(User(id: 1)) } == "cantSave")
        #expect(try await session.loadUser() == nil)
    }

    @Test("a store that cannot be reached is an error of each call, never an absent user")
    func unavailable() async throws {
        let store = FaultingAsyncKVStore(LocalAsyncKVStore(InMemoryKVStore())) { _ in .before(.unavailable(.server)) }
        let session = AsyncKVSessionStorage<User>(store: store, key: "a")
        #expect(await session.code { _ = try await $0.loadUser() } == "unavailable")
        #expect(await session.code { try await $0.saveUser(User(id: 1)) } == "cantSave")
        #expect(await session.code { try await $0.clearUser() } == "cantClear")
    }

    @Test(
        "a write that may have been made says so, and the next load tells",
        arguments: [KVStoreError.Code.unknownOutcome, .durabilityUnknown, .notYetVisible])
    func unknownOutcome(_ code: KVStoreError.Code) async throws {
        let fault = Mutex<FaultingAsyncKVStore<LocalAsyncKVStore>.Fault?>(nil)
        let store = FaultingAsyncKVStore(LocalAsyncKVStore(InMemoryKVStore())) { call in
            call.operation == .commit ? fault.withLock { $0 } : nil
        }
        let session = AsyncKVSessionStorage<User>(store: store, key: "a")
        fault.withLock { $0 = .before(code) }
        #expect(await session.code { try await $0.saveUser(User(id: 1)) } == "unknownOutcome")
        #expect(try await session.loadUser() == nil)
        fault.withLock { $0 = .after(code) }
        #expect(await session.code { try await $0.saveUser(User(id: 1)) } == "unknownOutcome")
        #expect(try await session.loadUser() == User(id: 1))
        fault.withLock { $0 = .before(code) }
        #expect(await session.code { try await $0.clearUser() } == "unknownOutcome")
        #expect(try await session.loadUser() == User(id: 1))
        fault.withLock { $0 = .after(code) }
        #expect(await session.code { try await $0.clearUser() } == "unknownOutcome")
        #expect(try await session.loadUser() == nil)
    }
}

extension AsyncKVSessionStorage {
    /// The name of the error that a call throws.
    fileprivate func code(_ body: (Self) async throws -> Void) async -> String? {
        do {
            try await body(self)
            return nil
        } catch let error as SessionStorageError {
            #expect("\(error)".contains(#""a""#), "the key is named")
            return Mirror(reflecting: error).children.first?.label
        } catch {
            return "\(error)"
        }
    }
}

private final class Clock: Sendable {
    private let time = Mutex(Date(timeIntervalSinceReferenceDate: 0))

    var now: Date { time.withLock { $0 } }

    func advance(_ duration: Duration) { time.withLock { $0 += duration / .seconds(1) } }
}

/// A way to break a promise about several processes or the lifetime.
enum SharedSessionDefect: String, CaseIterable, Sendable {
    case isPrivate, neverEnds, endsEarly, endsAlthoughItHasNoLifetime

    /// The description of the check that must fail.
    var promise: String {
        switch self {
        case .isPrivate: "another process loads the user that was saved last, and none after clearing"
        default: "a session ends its lifetime after the last save, not earlier; without a lifetime, never"
        }
    }

    /// A subject with a defect, or with none.
    static func subject(_ defect: Self?) -> AsyncSessionStorageUnderTest {
        let clock = Clock()
        let stores = (0..<2).map { _ in LocalAsyncKVStore(ExpiringKVStore(InMemoryKVStore(), now: { clock.now })) }
        let lifetime: Duration? =
            switch defect {
            case .neverEnds: nil
            case .endsEarly, .endsAlthoughItHasNoLifetime: .milliseconds(400)
            case .isPrivate, nil: .seconds(1)
            }
        let storages = [stores[0], stores[defect == .isPrivate ? 1 : 0]].map {
            AsyncKVSessionStorage<ConformanceUser>(store: $0, key: "a", lifetime: lifetime)
        }
        return AsyncSessionStorageUnderTest(
            storages[0], other: storages[1], lifetime: defect == .endsAlthoughItHasNoLifetime ? nil : .seconds(1),
            pass: { clock.advance($0) })
    }
}
