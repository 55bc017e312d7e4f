import Synchronization

/// A session in memory, gone with the object; for tests, and for a user who does not want to be remembered.
///
/// All calls may come from any thread at once, and none of them fails.
public final class InMemorySessionStorage<User: Sendable>: SessionStorage, Sendable {
    private let user: Mutex<User?>

    /// A storage that holds `user`, by default nobody.
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
