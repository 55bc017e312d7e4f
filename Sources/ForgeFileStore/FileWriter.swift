import ForgeFileSystem
public import Foundation
import Synchronization

/// A new file of a ``DiskFileStore`` or ``InMemoryFileStore``, written in parts.
public final class FileWriter: FileWriting {
    private let staged: StagedFile
    private let key: RelativeKey
    private let condition: SaveCondition
    private let durability: Durability
    private let engine: FileStoreEngine
    /// The first failure: part of the content is missing since then. Held during a call, so that calls do not overlap.
    private let failure = Mutex<FileStoreError?>(nil)

    init(
        _ staged: StagedFile, key: RelativeKey, _ condition: SaveCondition, _ durability: Durability,
        engine: FileStoreEngine
    ) {
        self.staged = staged
        self.key = key
        self.condition = condition
        self.durability = durability
        self.engine = engine
    }

    public func write(_ data: Data) async throws {
        try await engine.offload { [self] _ in
            try attempt { () throws(FileSystemError) in
                try withBytes(of: data) { (bytes) throws(FileSystemError) in try append(bytes) }
            }
        }
    }

    /// Appends bytes on the caller's thread, which may wait for the device.
    ///
    /// - Throws: As ``write(_:)``.
    public func writeBlocking(_ bytes: UnsafeRawBufferPointer) throws(FileStoreError) {
        try attempt { () throws(FileSystemError) in try append(bytes) }
    }

    private func append(_ bytes: UnsafeRawBufferPointer) throws(FileSystemError) {
        try staged.withFile { (file) throws(FileSystemError) in try engine.fileSystem.writeFully(file, from: bytes) }
    }

    @discardableResult
    public func commit() async throws -> StoredFile {
        try await engine.offload { [self] _ in
            try attempt { () throws(FileSystemError) in
                try staged.finishContent(durability)
                try staged.synchronize(durability)
                return StoredFile(
                    key: key.string,
                    try staged.store.place(
                        staged, condition.renameMode, expecting: condition.expectedRevision, durability: durability))
            }
        }
    }

    public func cancel() async {
        await BlockingWork.run { [staged] in staged.discard() }
    }

    /// Runs `body` unless an earlier call failed.
    private func attempt<Result>(_ body: () throws(FileSystemError) -> Result) throws(FileStoreError) -> Result {
        var result: Swift.Result<Result, FileStoreError>?
        failure.withLock { failure in
            if let failure {
                result = .failure(failure)
                return
            }
            do throws(FileSystemError) {
                result = .success(try body())
            } catch {
                let error = FileStoreError(error, .save, key: key.string)
                failure = error
                result = .failure(error)
            }
        }
        guard let result else { throw FileStoreError(.closed, .save, key: key.string) }
        return try result.get()
    }
}
