public import ForgeCrypt

/// A session in a store of secrets, for a user of whom a part is nobody else's business.
///
/// It keeps one secret and touches no other. It is as durable as its store: with `VaultCrypt` and `KeychainCrypt` a
/// user who was saved is there after a crash. All calls may come from any thread at once.
public final class CryptSessionStorage<User: Codable & Sendable>: SessionStorage, Sendable {
    private let store: any CryptStoring
    private let key: CryptKey<User>

    /// A session that is kept in `store`.
    ///
    /// - Parameters:
    ///   - store: The store of secrets.
    ///   - key: The name of the secret; another for each session that is kept in one store.
    ///   - accessibility: When the user may be read, where the operating system guards the store.
    public init(
        store: any CryptStoring, key: String = "session.user", accessibility: CryptAccessibility = .whenUnlocked
    ) {
        self.store = store
        self.key = CryptKey(key: key, accessibility: accessibility)
    }

    public func saveUser(_ user: User) throws(SessionStorageError) {
        do {
            try store.set(user, for: key)
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
        } catch {
            throw .cantClear(error)
        }
    }
}
