public import Foundation

/// The half of a storage of bytes that writes.
///
/// The two calls that save are all that a type has to bring. One that can remove too says so by bringing
/// `removeValue(for:)`.
public protocol WritableStorage: Sendable {
    /// Stores `value` for `key`, in place of what was stored there, while the caller waits.
    ///
    /// - Throws: ``StorageError/cantWrite(_:)``; what was stored before is still there.
    func save(value: Data, for key: String) throws

    /// Stores `value` for `key` in the background and calls `handler` once, with `value` if it was stored.
    ///
    /// The errors are those of the call that waits.
    func save(value: Data, for key: String, handler: @escaping Handler<Data>)

    /// Removes what is stored for `key`; that there is nothing is no error.
    ///
    /// - Throws: ``StorageError/cantRemove(_:)``; what was stored is still there. A type without this call always throws
    ///   it, with ``RemovalNotSupported``.
    func removeValue(for key: String) throws
}

extension WritableStorage {
    /// Throws ``StorageError/cantRemove(_:)``, because this type has no removal of its own.
    public func removeValue(for key: String) throws {
        throw StorageError.cantRemove(RemovalNotSupported())
    }

    /// Stores `value` for `key` without blocking a thread that Swift concurrency shares.
    ///
    /// It is the call with a handler, awaited: it takes its turn among those. Cancelling the task has no effect on it.
    ///
    /// - Throws: The errors of the call that waits.
    public func save(value: Data, for key: String) async throws {
        _ = try await withCheckedThrowingContinuation { continuation in
            save(value: value, for: key) { continuation.resume(with: $0) }
        }
    }
}

/// Why a storage that only saves and fetches did not remove a value.
public struct RemovalNotSupported: Error, Hashable, CustomStringConvertible {
    public var description: String { "this storage cannot remove values" }

    /// The one value of this type.
    public init() {}
}
