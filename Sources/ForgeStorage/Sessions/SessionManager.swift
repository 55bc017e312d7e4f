/// The session of an app, which knows nothing about where it is stored.
///
/// It fails as its storage does, and is as safe to share between threads as that is.
public final class SessionManager<Storage: SessionStorage> {
    private let storage: Storage

    /// A session that is kept in `storage`.
    public init(storage: Storage) {
        self.storage = storage
    }

    /// Stores `user` in place of whoever was stored before.
    ///
    /// - Throws: The storage's error; the user who was stored before still is.
    public func saveUser(_ user: Storage.User) throws(Storage.Failure) {
        try storage.saveUser(user)
    }

    /// The user who is stored, or nil if there is none.
    ///
    /// - Throws: The storage's error if that could not be found out.
    public func loadUser() throws(Storage.Failure) -> Storage.User? {
        try storage.loadUser()
    }

    /// Removes the user who is stored; that there is none is no error.
    ///
    /// - Throws: The storage's error; the user is still stored.
    public func clearUser() throws(Storage.Failure) {
        try storage.clearUser()
    }
}

extension SessionManager: Sendable where Storage: Sendable {}
