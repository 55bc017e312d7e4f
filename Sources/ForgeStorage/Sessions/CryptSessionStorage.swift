public import ForgeCrypt

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
