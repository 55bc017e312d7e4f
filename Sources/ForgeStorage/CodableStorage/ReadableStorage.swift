public import Foundation

/// The half of a storage of bytes that reads.
///
/// Code that only looks things up takes a `ReadableStorage`; what changes the storage takes a ``Storage``. The two
/// calls are all that a type has to bring.
public protocol ReadableStorage: Sendable {
    /// The value that is stored for `key`, read while the caller waits.
    ///
    /// - Throws: ``StorageError/notFound`` if there is none, ``StorageError/cantRead(_:)`` if that could not be found
    ///   out: a failure to read is never reported as an absent value.
    func fetchValue(for key: String) throws -> Data

    /// Reads the value that is stored for `key` in the background and calls `handler` once with it.
    ///
    /// The errors are those of the call that waits.
    func fetchValue(for key: String, handler: @escaping Handler<Data>)
}

extension ReadableStorage {
    /// The value that is stored for `key`, read without blocking a thread that Swift concurrency shares.
    ///
    /// It is the call with a handler, awaited: it takes its turn among those. Cancelling the task has no effect on it.
    ///
    /// - Throws: The errors of the call that waits.
    public func fetchValueInBackground(for key: String) async throws -> Data {
        try await withCheckedThrowingContinuation { continuation in
            fetchValue(for: key) { continuation.resume(with: $0) }
        }
    }
}
