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
