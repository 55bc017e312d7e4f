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
