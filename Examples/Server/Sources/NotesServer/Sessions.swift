import Crypto
import ForgeStorage
import Foundation

/// A user who is signed in.
struct User: Codable, Equatable {
    var name: String
}

/// The sessions of all users, which end a day after they were created.
struct Sessions {
    private let store: ExpiringKVStore<NamespacedKVStore<FileKVStore>>

    init(_ store: FileKVStore) {
        self.store = ExpiringKVStore(NamespacedKVStore(store, namespace: "sessions"))
    }

    /// The session that a token stands for, whether there is one or not.
    func session(of token: String) -> SessionManager<User, any Error> {
        // Errors and logs contain the names of keys, and a token is a secret.
        let digest = SHA256.hash(data: Data(token.utf8)).map { String(format: "%02x", $0) }.joined()
        return SessionManager(storage: ExpiringSession(store: store, key: KVKey(digest)))
    }

    func removeExpired() throws { try store.removeExpired() }
}

private struct ExpiringSession<Base: KVStoring>: SessionStorage {
    let store: ExpiringKVStore<Base>
    let key: KVKey<User>

    func saveUser(_ user: User) throws { try store.set(key, value: user, expiresAfter: .seconds(86_400)) }
    func loadUser() throws -> User? { try store.read(key) }
    func clearUser() throws { try store.remove(key) }
}
