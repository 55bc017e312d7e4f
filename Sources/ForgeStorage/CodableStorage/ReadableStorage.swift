public import Foundation

/// The read operations of a key-value storage of bytes.
///
/// Code that only reads takes a `ReadableStorage`; code that also writes takes a ``Storage``. A type must implement the
/// two `fetchValue` methods.
public protocol ReadableStorage: Sendable {
    /// The value stored for `key`, read synchronously.
    ///
    /// - Throws: ``StorageError/notFound`` if there is none, ``StorageError/cantRead(_:)`` if that cannot be
    ///   determined: a failed read is never reported as an absent value.
    func fetchValue(for key: String) throws -> Data

    /// Reads the value for `key` in the background and calls `handler` once with it.
    ///
    /// The errors are those of the synchronous call.
    func fetchValue(for key: String, handler: @escaping Handler<Data>)
}

extension ReadableStorage {
    /// The value stored for `key`, read without blocking a thread of the cooperative pool.
    ///
    /// It awaits the call with a handler, so it runs in the same order as those. Cancelling the task has no effect.
    ///
    /// - Throws: The errors of the synchronous call.
    public func fetchValueInBackground(for key: String) async throws -> Data {
        try await withCheckedThrowingContinuation { continuation in
            fetchValue(for: key) { continuation.resume(with: $0) }
        }
    }
}
