import Synchronization

/// The session of an app. Its type contains the user and the error types, not the storage.
///
/// ```swift
/// let session = SessionManager(storage: InMemorySessionStorage<User>())  // SessionManager<User, Never>: no `try`
/// ```
///
/// A session may be used from any thread, whatever its storage: it makes one call at a time. The storage must not be
/// used elsewhere afterwards, unless it is `Sendable`.
public final class SessionManager<User: Sendable, Failure: Error>: Sendable {
    private let calls: Mutex<Calls>

    /// The calls of a storage.
    private struct Calls {
        var save: (User) throws(Failure) -> Void
        var load: () throws(Failure) -> User?
        var clear: () throws(Failure) -> Void
    }

    /// Creates a session in `storage`; one whose type is chosen at run time is passed to ``init(anyStorage:)``.
    public init<Base: SessionStorage>(storage: sending Base) where Base.User == User, Base.Failure == Failure {
        calls = Mutex(
            Calls(
                save: { (user) throws(Failure) in try storage.saveUser(user) },
                load: { () throws(Failure) in try storage.loadUser() },
                clear: { () throws(Failure) in try storage.clearUser() }))
    }

    /// Creates a session in a storage whose type is chosen at run time.
    ///
    /// ```swift
    /// let storage: any SessionStorage<User> =
    ///     staysLoggedIn ? CryptSessionStorage(store: vault) : InMemorySessionStorage()
    /// let session = SessionManager(anyStorage: storage)  // SessionManager<User, any Error>
    /// ```
    public init(anyStorage storage: sending any SessionStorage<User>) where Failure == any Error {
        calls = Mutex(
            Calls(
                save: { (user) throws(any Error) in try storage.saveUser(user) },
                load: { () throws(any Error) in try storage.loadUser() },
                clear: { () throws(any Error) in try storage.clearUser() }))
    }

    /// Stores `user`, replacing the stored user.
    ///
    /// - Throws: The storage's error; the previous user is kept.
    public func saveUser(_ user: User) throws(Failure) {
        try calls.withLock { (calls) throws(Failure) in try calls.save(user) }
    }

    /// The stored user; nil if there is none.
    ///
    /// - Throws: The storage's error if the user cannot be read.
    public func loadUser() throws(Failure) -> User? {
        try calls.withLock { (calls) throws(Failure) in try calls.load() }
    }

    /// Removes the stored user; has no effect if there is none.
    ///
    /// - Throws: The storage's error; the user is kept.
    public func clearUser() throws(Failure) {
        try calls.withLock { (calls) throws(Failure) in try calls.clear() }
    }
}
