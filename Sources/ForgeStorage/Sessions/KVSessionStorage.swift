public import ForgeKVStore

/// A session in a key-value store, for users without confidential data.
///
/// Stores a single value and accesses no other. It is as durable as its store: with `FileKVStore` a saved user survives
/// a kill of the process. All calls are thread-safe.
///
/// A custom store without `read(_:)` cannot distinguish an undecodable user from an absent one. In an
/// `ExpiringKVStore`, saving a user removes the expiration that the session had.
public final class KVSessionStorage<User: Codable & Sendable>: SessionStorage, Sendable {
    private let store: any KVStoring
    private let key: KVKey<User>

    /// Creates a session in `store`.
    ///
    /// - Parameters:
    ///   - store: The key-value store.
    ///   - key: The name of the value; use different names for several sessions in one store.
    public init(store: any KVStoring, key: String = "session.user") {
        self.store = store
        self.key = KVKey(key)
    }

    public func saveUser(_ user: User) throws(SessionStorageError) {
        do {
            try store.set(key, value: user)
        } catch {
            throw .cantSave(error)
        }
    }

    public func loadUser() throws(SessionStorageError) -> User? {
        do {
            return try store.read(key)
        } catch let error as KVStoreError where error.code == .undecodable {
            throw .undecodable(error)
        } catch {
            throw .unavailable(error)
        }
    }

    public func clearUser() throws(SessionStorageError) {
        do {
            try store.remove(key)
        } catch {
            throw .cantClear(error)
        }
    }
}
