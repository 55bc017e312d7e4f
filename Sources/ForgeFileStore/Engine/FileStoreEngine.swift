import ForgeFileSystem
import Foundation
import SystemPackage

/// The implementation that all file stores on a `POSIXFileSystem` share.
///
/// The first call that needs the root opens it; if that fails, the next call tries again. So a store that is created
/// while the device is locked works once the device is unlocked.
final class FileStoreEngine: Sendable {
    /// The root, the file systems and the options of an engine.
    struct Configuration: Sendable {
        var root: Result<POSIXPath, FileStoreError>
        var fileSystem: any POSIXFileSystem
        /// The file system of the URLs of copies, moves and exports; nil for ``fileSystem``.
        var sources: (any POSIXFileSystem)?
        var fileProtection: FileProtection?
        var options: FileStoreOptions
        /// Whether calls may wait for a device and must therefore not run on the caller's thread.
        var waitsForDevice = true
    }

    let configuration: Configuration
    let root: Result<LazyStoreDirectory, FileStoreError>
    let totals = TreeTotals()

    /// Files up to this size are loaded on the caller's thread, because switching threads would take longer.
    static let inlineLoadLimit: Int64 = 1 << 20

    /// Saves up to this size run on the caller's thread if they wait for no flush.
    static let inlineSaveLimit = 64 << 10

    init(_ configuration: Configuration) {
        self.configuration = configuration
        root = configuration.root.map { path in
            LazyStoreDirectory(path, on: configuration.fileSystem) { (path) throws(FileSystemError) in
                try configuration.fileProtection?.apply(to: path, on: configuration.fileSystem)
            }
        }
    }

    var fileSystem: any POSIXFileSystem { configuration.fileSystem }
    var durability: Durability { configuration.options.durability }
}

// MARK: The root

extension FileStoreEngine {
    /// Creates the root if it is missing, and removes the recorded temporary files of processes that have ended.
    func open() throws(FileStoreError) {
        let root = try root.get()
        do {
            _ = try root.forWriting()
        } catch {
            throw FileStoreError(opening: error, .open, key: "")
        }
    }

    /// Calls `body` with the root directory; returns nil if the root does not exist, and does not create it.
    func attemptIfExists<Result>(
        _ operation: FileStoreError.Operation, _ key: String,
        _ body: (StoreDirectory) throws(FileSystemError) -> Result
    ) throws(FileStoreError) -> Result? {
        let root = try root.get()
        let directory: StoreDirectory
        do {
            guard let existing = try root.existing() else { return nil }
            directory = existing
        } catch {
            throw FileStoreError(opening: error, operation, key: key)
        }
        do {
            return try body(directory)
        } catch {
            throw FileStoreError(error, operation, key: key)
        }
    }

    /// Like `attemptIfExists`, but throws `.notFound` if the root does not exist.
    func attempt<Result>(
        _ operation: FileStoreError.Operation, _ key: String,
        _ body: (StoreDirectory) throws(FileSystemError) -> Result
    ) throws(FileStoreError) -> Result {
        guard let result = try attemptIfExists(operation, key, body) else {
            throw FileStoreError(.notFound, operation, key: key)
        }
        return result
    }

    /// Like `attempt`, but creates a missing root, such as a cache directory that the system has removed.
    /// The operation and key of an error are evaluated after the failure.
    func attemptStoring<Result>(
        _ operation: @autoclosure () -> FileStoreError.Operation, _ key: @autoclosure () -> String,
        _ body: (StoreDirectory) throws(FileSystemError) -> Result
    ) throws(FileStoreError) -> Result {
        let root = try root.get()
        var opened: StoreDirectory?
        do {
            return try root.write { (directory) throws(FileSystemError) in
                opened = directory
                return try body(directory)
            }
        } catch {
            guard opened != nil else { throw FileStoreError(opening: error, operation(), key: key()) }
            throw FileStoreError(error, operation(), key: key())
        }
    }

    /// Runs `body` on a thread that may block if calls can wait for a device, otherwise on the caller's.
    func offload<Result: Sendable>(
        _ body: @escaping @Sendable (Cancellation) throws -> Result
    ) async throws -> Result {
        if configuration.waitsForDevice { return try await Cancellation.offload(body) }
        try Task.checkCancellation()
        return try body(Cancellation())
    }
}
