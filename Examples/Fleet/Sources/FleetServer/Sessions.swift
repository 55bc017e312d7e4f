import Crypto
import ForgeStorage
import Foundation

/// A user who is signed in.
struct User: Codable, Equatable {
    var name: String
}

/// The sessions of all users, which end a day after they were created; every server sees them.
struct Sessions {
    private let store: any AsyncKVStoring

    init(_ store: some AsyncKVStoring) {
        self.store = NamespacedKVStore(store, namespace: "sessions")
    }

    /// The session that a token stands for, whether there is one or not.
    func session(of token: String) -> AsyncKVSessionStorage<User> {
        // Errors and logs contain the names of keys, and a token is a secret.
        let digest = SHA256.hash(data: Data(token.utf8)).map { String(format: "%02x", $0) }.joined()
        return AsyncKVSessionStorage(store: store, key: digest, lifetime: .seconds(86_400))
    }
}
