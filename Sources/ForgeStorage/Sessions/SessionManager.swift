/// The session of an app, independent of its storage.
///
/// Throws the storage's errors and is as thread-safe as the storage.
public final class SessionManager<Storage: SessionStorage> {
    private let storage: Storage

    /// Creates a session in `storage`.
    public init(storage: Storage) {
        self.storage = storage
    }

    /// Stores `user`, replacing the stored user.
    ///
    /// - Throws: The storage's error; the previous user is kept.
    public func saveUser(_ user: Storage.User) throws(Storage.Failure) {
        try storage.saveUser(user)
    }

    /// The stored user; nil if there is none.
    ///
    /// - Throws: The storage's error if the user cannot be read.
    public func loadUser() throws(Storage.Failure) -> Storage.User? {
        try storage.loadUser()
    }

    /// Removes the stored user; has no effect if there is none.
    ///
    /// - Throws: The storage's error; the user is kept.
    public func clearUser() throws(Storage.Failure) {
        try storage.clearUser()
    }
}

extension SessionManager: Sendable where Storage: Sendable {}
