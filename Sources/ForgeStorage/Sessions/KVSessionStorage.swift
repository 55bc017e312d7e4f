public import ForgeKVStore

/// A session in a key-value store, for a user of whom nothing is secret.
///
/// It keeps one value and touches no other. It is as durable as its store: with `FileKVStore` a user who was saved is
/// there after a kill of the process. All calls may come from any thread at once.
///
/// A store of the app's own that has no `read(_:)` cannot tell a value that is no user from no value.
public final class KVSessionStorage<User: Codable & Sendable>: SessionStorage, Sendable {
    private let store: any KVStoring
    private let key: KVKey<User>

    /// A session that is kept in `store`.
    ///
    /// - Parameters:
    ///   - store: The key-value store.
    ///   - key: The name of the value; another for each session that is kept in one store.
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
