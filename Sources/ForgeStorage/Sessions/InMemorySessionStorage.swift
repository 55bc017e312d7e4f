import Synchronization

/// A session in memory, for tests and for users who do not want to stay logged in.
///
/// All calls are thread-safe, and none fails.
public final class InMemorySessionStorage<User: Sendable>: SessionStorage, Sendable {
    private let user: Mutex<User?>

    /// Creates a storage that contains `user`; empty by default.
    public init(user: User? = nil) {
        self.user = Mutex(user)
    }

    public func saveUser(_ user: User) {
        self.user.withLock { $0 = user }
    }

    public func loadUser() -> User? {
        user.withLock { $0 }
    }

    public func clearUser() {
        user.withLock { $0 = nil }
    }
}
