import ForgeFileSystem
public import Foundation
import Synchronization

/// A new file of a store, written in parts.
///
/// Calls that overlap are performed one after the other, in any order. A writer that is released without ``commit()``
/// leaves nothing.
public protocol FileWriting: Sendable {
    /// Appends bytes.
    ///
    /// - Throws: ``FileStoreError``: ``FileStoreError/Code/closed`` after ``commit()`` or ``cancel()``; `CancellationError`.
    ///   After a failed or cancelled write the file cannot be committed: its content would have a hole.
    func write(_ data: Data) async throws

    /// Stores the file under its key, with the durability that was requested. Directories of the key that were deleted
    /// since the writer was opened are created again.
    ///
    /// - Returns: The stored file.
    /// - Throws: As ``FileStoring/save(_:to:overwrite:)``; nothing is stored, unless the code is
    ///   ``FileStoreError/Code/durabilityUnknown``. The writer cannot be used again.
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

/// A new file of a ``DiskFileStore`` or ``InMemoryFileStore``, written in parts.
public final class FileWriter: FileWriting {
    private struct State {
        var staged: StagedFile
        var isFinished = false
        /// The first failure: part of the content is missing since then.
        var failure: FileStoreError?
    }

    /// Held during a call, so that calls do not overlap.
    private let state: Mutex<State>
    /// Whether bytes are missing because a write did not begin.
    private let isIncomplete = Atomic(false)
    private let key: RelativeKey
    private let condition: SaveCondition
    private let durability: Durability
    private let store: PlainFileStore

    init(
        _ staged: StagedFile, key: RelativeKey, _ condition: SaveCondition, _ durability: Durability,
        store: PlainFileStore
    ) {
        state = Mutex(State(staged: staged))
        self.key = key
        self.condition = condition
        self.durability = durability
        self.store = store
    }

    nonisolated(nonsending) public func write(_ data: Data) async throws {
        do {
            try await store.run(.save, key.string) { [self] cancellation in
                cancellation.expectWork(ofSize: Int64(data.count))
                try append { (file) throws(FileSystemError) in try file.write(data) }
            }
        } catch {
            // Cancelled, or past its deadline: the bytes after a hole must not be stored.
            isIncomplete.store(true, ordering: .sequentiallyConsistent)
            throw error
        }
    }

    /// Appends bytes on the caller's thread, which may wait for the device.
    ///
    /// - Throws: As ``write(_:)``.
    public func writeBlocking(_ bytes: RawSpan) throws(FileStoreError) {
        try append { (file) throws(FileSystemError) in try file.write(bytes) }
    }

    @discardableResult
    nonisolated(nonsending) public func commit() async throws -> StoredFile {
        try await store.run(.save, key.string) { [self] cancellation in
            cancellation.expectLongWork()
            return try attempt { (state) throws(FileStoreError) in
                if !state.isFinished {
                    do throws(FileSystemError) {
                        try state.staged.finish(durability, keepingOpen: true)
                    } catch {
                        throw FileStoreError(error, .save, key: key.string)
                    }
                    state.isFinished = true
                }
                var staged = state.staged
                defer { state.staged = staged }
                return try store.attemptStoring(.save, key.string) { (directory) throws(FileSystemError) in
                    // The root was removed or replaced since: the file belongs into the one at the path now.
                    if staged.store !== directory {
                        let copy = try directory.stage(copyOf: staged, durability, keepingOpen: true)
                        staged.discard()
                        staged = copy
                    }
                    return StoredFile(
                        key: key.string,
                        try directory.place(
                            staged, condition.renameMode, expecting: condition.expectedRevision,
                            durability: durability))
                }
            }
        }
    }

    nonisolated(nonsending) public func cancel() async {
        await store.runUncancelled { [self] in state.withLock { $0.staged }.discard() }
    }

    private func append(_ write: (StagedFile) throws(FileSystemError) -> Void) throws(FileStoreError) {
        try attempt { (state) throws(FileStoreError) in
            do throws(FileSystemError) {
                try write(state.staged)
            } catch {
                throw FileStoreError(error, .save, key: key.string)
            }
        }
    }

    /// Runs `body` unless an earlier call failed.
    private func attempt<Result>(
        _ body: (inout State) throws(FileStoreError) -> Result
    ) throws(FileStoreError) -> Result {
        try state.withLock { (state) throws(FileStoreError) in
            if let failure = state.failure { throw failure }
            guard !isIncomplete.load(ordering: .sequentiallyConsistent) else {
                throw FileStoreError(.closed, .save, key: key.string)
            }
            do throws(FileStoreError) {
                return try body(&state)
            } catch {
                // The next attempt to commit follows.
                if (error.underlying as? FileSystemError)?.isTakenTurn != true { state.failure = error }
                throw error
            }
        }
    }
}
