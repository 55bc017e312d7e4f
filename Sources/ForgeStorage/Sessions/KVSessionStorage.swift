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
    var isPerhapsDone: Bool {
        self == .unknownOutcome || self == .durabilityUnknown || self == .notYetVisible
    }
}
