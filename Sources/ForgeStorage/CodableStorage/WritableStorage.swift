public import Foundation

/// The write operations of a key-value storage of bytes.
///
/// A type must implement the two `save` methods. A type that can remove values also implements `removeValue(for:)`.
public protocol WritableStorage: Sendable {
    /// Stores `value` for `key` synchronously, replacing the previous value.
    ///
    /// - Throws: ``StorageError/cantWrite(_:)``, which says whether the previous value is kept.
    func save(value: Data, for key: String) throws

    /// Stores `value` for `key` in the background and calls `handler` once, with `value` if it was stored.
    ///
    /// The errors are those of the synchronous call.
    func save(value: Data, for key: String, handler: @escaping Handler<Data>)

    /// Removes the value for `key`; succeeds if there is none.
    ///
    /// - Throws: ``StorageError/cantRemove(_:)``, which says whether the value is kept. The default implementation
    ///   always throws it, with ``RemovalNotSupported``.
    func removeValue(for key: String) throws
}

extension WritableStorage {
    /// Throws ``StorageError/cantRemove(_:)``: the default for a type that cannot remove values.
    public func removeValue(for key: String) throws {
        throw StorageError.cantRemove(RemovalNotSupported())
    }

    /// Stores `value` for `key` without blocking a thread of the cooperative pool.
    ///
    /// It awaits the call with a handler, so it runs in the same order as those. Cancelling the task has no effect.
    ///
    /// - Throws: The errors of the synchronous call.
    public func saveInBackground(value: Data, for key: String) async throws {
        _ = try await withCheckedThrowingContinuation { continuation in
            save(value: value, for: key) { continuation.resume(with: $0) }
        }
    }
}

/// The underlying error of ``StorageError/cantRemove(_:)`` from a storage that cannot remove values.
public struct RemovalNotSupported: Error, Hashable, CustomStringConvertible {
    public var description: String { "this storage cannot remove values" }

    /// Creates the error.
    public init() {}
}
