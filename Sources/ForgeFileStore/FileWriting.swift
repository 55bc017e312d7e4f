public import Foundation

/// A new file of a store, written in parts.
///
/// Calls that overlap are performed one after the other, in any order. A writer that is released without ``commit()``
/// leaves nothing.
public protocol FileWriting: Sendable {
    /// Appends bytes.
    ///
    /// - Throws: ``FileStoreError``: ``FileStoreError/Code/closed`` after ``commit()`` or ``cancel()``. After a failed or
    ///   cancelled write the file cannot be committed: its content would have a hole.
    func write(_ data: Data) async throws

    /// Stores the file under its key, with the durability that was requested.
    ///
    /// - Returns: The stored file.
    /// - Throws: As ``FileStoring/save(_:to:overwrite:)``; nothing is stored, unless the code is
    ///   ``FileStoreError/Code/durabilityUnknown``. The writer is of no further use.
    @discardableResult
    func commit() async throws -> StoredFile

    /// Waits for a call that is under way, and removes what was written; does nothing after ``commit()``.
    func cancel() async
}

extension FileWriting {
    /// Appends all chunks of a sequence, waiting for each to be written before the next is asked for.
    nonisolated(nonsending) public func write<Chunks: AsyncSequence>(
        contentsOf chunks: Chunks
    ) async throws where Chunks.Element == Data {
        for try await chunk in chunks { try await write(chunk) }
    }
}
