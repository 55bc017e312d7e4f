public import ForgeCrypt
public import ForgeKVStore

/// A session in a key-value store, for users without confidential data.
///
/// Stores a single value and accesses no other. It is as durable as its store: with `FileKVStore` a saved user survives
/// a kill of the process. All calls are thread-safe.
///
/// A user that a later version of the app saved is ``SessionStorageError/undecodable(_:)``, like one of another type. A
/// custom store without `read(_:)` cannot distinguish an undecodable user from an absent one.
///
/// A session with a lifetime is in an `ExpiringKVStore`, which has the clock:
///
/// ```swift
/// let sessions = ExpiringKVStore(store)
/// let storage = KVSessionStorage<User>(store: sessions, key: id, lifetime: .seconds(86_400))
/// try sessions.removeExpired()  // Now and then: an expired session is absent, and takes up space until removed.
/// ```
public final class KVSessionStorage<User: Codable & Sendable>: SessionStorage, Sendable {
    private let store: any KVStoring
    private let key: KVKey<User>
    private let save: @Sendable (User) throws -> Void

    /// Creates a session in `store`.
    ///
    /// - Parameters:
    ///   - store: The key-value store.
    ///   - key: The name of the value; use different names for several sessions in one store.
    public init(store: any KVStoring, key: String = "session.user") {
        let key = KVKey<User>(key)
        self.store = store
        self.key = key
        save = { try store.set(key, value: $0) }
    }

    /// Creates a session that ends a given time after the last ``saveUser(_:)``; then the user is absent.
    ///
    /// Loading a user neither prolongs the session nor removes an expired one.
    ///
    /// - Parameters:
    ///   - store: The store, whose clock decides what has expired.
    ///   - key: The name of the value; use different names for several sessions in one store.
    ///   - lifetime: The time from saving a user to the end of the session.
    public init<Base>(store: ExpiringKVStore<Base>, key: String = "session.user", lifetime: Duration) {
        let key = KVKey<User>(key)
        self.store = store
        self.key = key
        save = { try store.set(key, value: $0, expiresAfter: lifetime) }
    }

    public func saveUser(_ user: User) throws(SessionStorageError) {
        do {
            try save(user)
        } catch let error as KVStoreError where error.code.isPerhapsDone {
            throw .unknownOutcome(error)
        } catch {
            throw .cantSave(error)
        }
    }

    public func loadUser() throws(SessionStorageError) -> User? {
        do {
            return try store.read(key)
        } catch let error as KVStoreError where error.code.isUnreadableValue {
            throw .undecodable(error)
        } catch {
            throw .unavailable(error)
        }
    }

    public func clearUser() throws(SessionStorageError) {
        do {
            try store.remove(key)
        } catch let error as KVStoreError where error.code.isPerhapsDone {
            throw .unknownOutcome(error)
        } catch {
            throw .cantClear(error)
        }
    }
}

extension KVStoreError.Code {
    /// Whether the value is there, but is not of the key's type or version: reading again gives the same result.
    fileprivate var isUnreadableValue: Bool { self == .undecodable || newerVersion != nil }

    /// Whether the write was made, or may be.
    fileprivate var isPerhapsDone: Bool {
        self == .unknownOutcome || self == .durabilityUnknown || self == .notYetVisible
    }
}

/// A session in an asynchronous key-value store, which all servers of a fleet see.
///
/// ```swift
/// func session(_ tokenDigest: String, in store: any AsyncKVStoring) -> AsyncKVSessionStorage<User> {
///     AsyncKVSessionStorage(store: store, key: "session/\(tokenDigest)", lifetime: .seconds(86_400))
/// }
/// ```
///
/// Stores a single value and accesses no other. It is as durable as its store, and a load sees the saves that the
/// store's reads see: with a linearizable store, those of every server. All calls are thread-safe. Creating one costs
/// nothing.
///
/// Errors contain the name of the value, so a secret such as a token must not be part of it; its digest may.
public struct AsyncKVSessionStorage<User: Codable & Sendable>: AsyncSessionStorage {
    private let store: any AsyncKVStoring
    private let key: KVKey<User>
    private let lifetime: Duration?

    /// Creates a session in `store`.
    ///
    /// The session ends when `lifetime` has passed since the last ``saveUser(_:)``, or up to the store's
    /// `AsyncKVCapabilities.expiry` later; after that, the user is absent. Loading a user does not prolong the
    /// session. A local store with a lifetime must be a `LocalAsyncKVStore` over an `ExpiringKVStore`. In a store
    /// without times to live, saving with a lifetime throws ``SessionStorageError/cantSave(_:)`` with the code
    /// `.refused`.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - key: The name of the value, a different one for each session.
    ///   - lifetime: The time from saving a user to the end of the session; nil for a session without end.
    public init(store: any AsyncKVStoring, key: String, lifetime: Duration? = nil) {
        self.store = store
        self.key = KVKey(key)
        self.lifetime = lifetime
    }

    public func saveUser(_ user: User) async throws(SessionStorageError) {
        do throws(KVStoreError) {
            try await store.set(key, value: user, timeToLive: lifetime)
        } catch {
            throw error.code.isPerhapsDone ? .unknownOutcome(error) : .cantSave(error)
        }
    }

    public func loadUser() async throws(SessionStorageError) -> User? {
        do throws(KVStoreError) {
            return try await store.read(key)
        } catch {
            let isUnreadable = error.code == .undecodable || error.code.newerVersion != nil
            throw isUnreadable ? .undecodable(error) : .unavailable(error)
        }
    }

    public func clearUser() async throws(SessionStorageError) {
        do throws(KVStoreError) {
            try await store.remove(key)
        } catch {
            throw error.code.isPerhapsDone ? .unknownOutcome(error) : .cantClear(error)
        }
    }
}

/// A session in a secret store, for users with confidential data.
///
/// Stores a single secret and accesses no other. It is as durable as its store: with `VaultCrypt` and `KeychainCrypt` a
/// saved user survives a crash. All calls are thread-safe.
public final class CryptSessionStorage<User: Codable & Sendable>: SessionStorage, Sendable {
    private let store: any CryptStoring
    private let key: CryptKey<User>

    /// Creates a session in `store`.
    ///
    /// - Parameters:
    ///   - store: The secret store.
    ///   - key: The name of the secret; use different names for several sessions in one store.
    ///   - accessibility: When the user may be read, if the operating system protects the store.
    public init(
        store: any CryptStoring, key: String = "session.user", accessibility: CryptAccessibility = .whenUnlocked
    ) {
        self.store = store
        self.key = CryptKey(key: key, accessibility: accessibility)
    }

    public func saveUser(_ user: User) throws(SessionStorageError) {
        do {
            try store.set(user, for: key)
        } catch let error as CryptError where error.code == .durabilityUnknown {
            throw .unknownOutcome(error)
        } catch {
            throw .cantSave(error)
        }
    }

    public func loadUser() throws(SessionStorageError) -> User? {
        do {
            return try store.get(key)
        } catch let error as CryptError where error.code == .undecodable {
            throw .undecodable(error)
        } catch {
            throw .unavailable(error)
        }
    }

    public func clearUser() throws(SessionStorageError) {
        do {
            try store.delete(key)
        } catch let error as CryptError where error.code == .durabilityUnknown {
            throw .unknownOutcome(error)
        } catch {
            throw .cantClear(error)
        }
    }
}
