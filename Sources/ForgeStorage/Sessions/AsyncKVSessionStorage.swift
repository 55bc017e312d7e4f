public import ForgeKVStore

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
