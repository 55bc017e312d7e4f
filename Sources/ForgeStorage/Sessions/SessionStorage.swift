import Foundation
import Synchronization

/// The session of an app. Its type contains the user and the error types, not the storage.
///
/// ```swift
/// let session = SessionManager(storage: InMemorySessionStorage<User>())  // SessionManager<User, Never>: no `try`
/// ```
///
/// A session may be used from any thread, whatever its storage: it makes one call at a time. Code that the storage runs,
/// such as the coding of a user, may use the session, but must not wait for another thread that does. The storage must
/// not be used elsewhere afterwards, unless it is `Sendable`.
public final class SessionManager<User: Sendable, Failure: Error>: Sendable {
    private let calls: Calls

    /// The calls of a storage, one at a time.
    ///
    /// `@unchecked Sendable`: the storage is used under the lock alone. That is recursive, because code that the storage
    /// calls, such as the coding of a user or a handler of issues, may use the session.
    private final class Calls: @unchecked Sendable {
        private let lock = NSRecursiveLock()
        private let saving: (User) throws(Failure) -> Void
        private let loading: () throws(Failure) -> User?
        private let clearing: () throws(Failure) -> Void

        init(
            save: @escaping (User) throws(Failure) -> Void, load: @escaping () throws(Failure) -> User?,
            clear: @escaping () throws(Failure) -> Void
        ) {
            (saving, loading, clearing) = (save, load, clear)
        }

        func save(_ user: User) throws(Failure) {
            lock.lock()
            defer { lock.unlock() }
            try saving(user)
        }

        func load() throws(Failure) -> User? {
            lock.lock()
            defer { lock.unlock() }
            return try loading()
        }

        func clear() throws(Failure) {
            lock.lock()
            defer { lock.unlock() }
            try clearing()
        }
    }

    /// Creates a session in `storage`; one whose type is chosen at run time is passed to ``init(anyStorage:)``.
    public init<Base: SessionStorage>(storage: sending Base) where Base.User == User, Base.Failure == Failure {
        calls = Calls(
            save: { (user) throws(Failure) in try storage.saveUser(user) },
            load: { () throws(Failure) in try storage.loadUser() },
            clear: { () throws(Failure) in try storage.clearUser() })
    }

    /// Creates a session in a storage whose type is chosen at run time.
    ///
    /// ```swift
    /// let storage: any SessionStorage<User> =
    ///     staysLoggedIn ? CryptSessionStorage(store: vault) : InMemorySessionStorage()
    /// let session = SessionManager(anyStorage: storage)  // SessionManager<User, any Error>
    /// ```
    public init(anyStorage storage: sending any SessionStorage<User>) where Failure == any Error {
        calls = Calls(
            save: { (user) throws(any Error) in try storage.saveUser(user) },
            load: { () throws(any Error) in try storage.loadUser() },
            clear: { () throws(any Error) in try storage.clearUser() })
    }

    /// Stores `user`, replacing the stored user.
    ///
    /// - Throws: The storage's error; the previous user is kept.
    public func saveUser(_ user: User) throws(Failure) {
        try calls.save(user)
    }

    /// The stored user; nil if there is none.
    ///
    /// - Throws: The storage's error if the user cannot be read.
    public func loadUser() throws(Failure) -> User? {
        try calls.load()
    }

    /// Removes the stored user; has no effect if there is none.
    ///
    /// - Throws: The storage's error; the user is kept.
    public func clearUser() throws(Failure) {
        try calls.clear()
    }
}

/// Storage for the user who is logged in.
///
/// A custom storage needs only the three calls. Their error types determine ``Failure``: a storage in memory that
/// throws nothing has `Never`, so neither it nor its ``SessionManager`` needs `try`. If only some of the calls throw,
/// declare both associated types: `typealias User = Customer`, `typealias Failure = any Error`.
///
/// ```swift
/// final class MyStorage: SessionStorage {
///     var storedUser: User?
///     func saveUser(_ user: User) { storedUser = user }
///     func loadUser() -> User? { storedUser }
///     func clearUser() { storedUser = nil }
/// }
/// ```
public protocol SessionStorage<User> {
    /// The data of a user.
    associatedtype User

    /// The error type of the calls.
    associatedtype Failure: Error = Never

    /// Stores `user`, replacing the stored user.
    ///
    /// If it throws, the previous user is kept.
    func saveUser(_ user: User) throws(Failure)

    /// The stored user; nil only if there is none.
    ///
    /// Throws if the user cannot be read or decoded.
    func loadUser() throws(Failure) -> User?

    /// Removes the stored user; has no effect if there is none.
    ///
    /// If it throws, the user is kept.
    func clearUser() throws(Failure)
}

/// The asynchronous sibling of ``SessionStorage``, for sessions that several servers share.
///
/// A `Sendable` synchronous storage can conform with an empty extension, as those of this library do. So the same code
/// runs on a fleet of servers, on one machine, and in tests in memory.
///
/// A write whose outcome is unknown may still take effect; the error says so
/// (``SessionStorageError/unknownOutcome(_:)``).
public protocol AsyncSessionStorage<User>: Sendable {
    /// The data of a user.
    associatedtype User: Sendable

    /// The error type of the calls.
    associatedtype Failure: Error = Never

    /// Stores `user`, replacing the stored user.
    ///
    /// If it throws, the previous user is kept, unless the error says that the outcome is unknown.
    func saveUser(_ user: User) async throws(Failure)

    /// The stored user; nil only if there is none.
    ///
    /// Throws if the user cannot be read or decoded.
    func loadUser() async throws(Failure) -> User?

    /// Removes the stored user; has no effect if there is none.
    ///
    /// If it throws, the user is kept, unless the error says that the outcome is unknown.
    func clearUser() async throws(Failure)
}

extension InMemorySessionStorage: AsyncSessionStorage {}

extension KVSessionStorage: AsyncSessionStorage {}

extension CryptSessionStorage: AsyncSessionStorage {}

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
        replace(by: user)
    }

    public func loadUser() -> User? {
        user.withLock { $0 }
    }

    public func clearUser() {
        replace(by: nil)
    }

    /// The old user is released without the lock: its `deinit` may use the storage.
    private func replace(by new: User?) {
        _ = user.withLock { user in
            defer { user = new }
            return user
        }
    }
}

/// A failure to store, load or remove a user.
///
/// The associated error is that of the underlying store; it names the key, never the user.
public enum SessionStorageError: Error {
    /// The stored value is not a user of the requested type, or a later version of the app saved it.
    case undecodable(any Error)

    /// The store cannot be read, for example because the device is locked.
    case unavailable(any Error)

    /// The user was not stored; the previous one is kept.
    case cantSave(any Error)

    /// The user was not removed.
    case cantClear(any Error)

    /// Either the user was stored or removed, but a power cut may undo it; or it is unknown whether it was, or still will
    /// be: load the user before deciding. The error of the store tells which.
    case unknownOutcome(any Error)
}

extension SessionStorageError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .undecodable(let error): "what is stored is no user: \(error)"
        case .unavailable(let error): "cannot load the user: \(error)"
        case .cantSave(let error): "cannot save the user: \(error)"
        case .cantClear(let error): "cannot clear the user: \(error)"
        case .unknownOutcome(let error): "the user may or may not have been stored or removed: \(error)"
        }
    }
}
