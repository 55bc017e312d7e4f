/// Where an app keeps the user who is logged in.
///
/// A type of the app's own needs just the three calls. How they can fail is inferred from them: storage in memory that
/// throws nothing has `Never` as its ``Failure``, so that neither it nor a ``SessionManager`` over it needs a `try`. A type
/// of whose calls only some throw has to name both types: `typealias User = Customer`, `typealias Failure = any Error`.
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
    /// What is known of a user.
    associatedtype User

    /// How the calls fail.
    associatedtype Failure: Error = Never

    /// Stores `user` in place of whoever was stored before.
    ///
    /// If it throws, the user who was stored before still is.
    func saveUser(_ user: User) throws(Failure)

    /// The user who is stored, or nil if there is none.
    ///
    /// That it could not be found out, or that what is stored is no user, is thrown and never answered with nil.
    func loadUser() throws(Failure) -> User?

    /// Removes the user who is stored; that there is none is no error.
    ///
    /// If it throws, the user is still stored.
    func clearUser() throws(Failure)
}
