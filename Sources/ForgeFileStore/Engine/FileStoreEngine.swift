import ForgeFileSystem
import Foundation
import SystemPackage

/// The implementation that all file stores on a `POSIXFileSystem` share.
///
/// The root is opened by the first call that needs it, and again by the next one if that failed: a store that is made
/// while the device is locked works once it is unlocked.
final class FileStoreEngine: Sendable {
    /// Where and how an engine works.
    struct Configuration: Sendable {
        var root: Result<POSIXPath, FileStoreError>
        var fileSystem: any POSIXFileSystem
        /// Where the URLs that are copied and moved from are looked up; nil for ``fileSystem`` itself.
        var sources: (any POSIXFileSystem)?
        var fileProtection: FileProtection?
        var options: FileStoreOptions
        /// Whether calls can wait for a device, so that they have to be taken off the caller's thread.
        var waitsForDevice = true
    }

    let configuration: Configuration
    private let root: Result<StoreRoot, FileStoreError>

    /// Files up to this size are loaded on the caller's thread: that takes less time than a hop to another.
    static let inlineLoadLimit: Int64 = 256 << 10

    init(_ configuration: Configuration) {
        self.configuration = configuration
        root = configuration.root.map { path in
            StoreRoot(path, on: configuration.fileSystem) { (path) throws(FileSystemError) in
                try configuration.fileProtection?.apply(to: path, on: configuration.fileSystem)
            }
        }
    }

    var fileSystem: any POSIXFileSystem { configuration.fileSystem }
    var durability: Durability { configuration.options.durability }
}

// MARK: The root

extension FileStoreEngine {
    /// Creates the root if it is missing, and removes what processes that are no more have recorded as temporary.
    func open() throws(FileStoreError) {
        let root = try root.get()
        do {
            _ = try root.forWriting()
        } catch {
            throw FileStoreError(opening: error, .open, key: "")
        }
    }

    /// Does something with the files that there are; nil if the root does not exist, which is not created.
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

    /// The same for a call about one key: in a root that does not exist it is not found.
    func attempt<Result>(
        _ operation: FileStoreError.Operation, _ key: String,
        _ body: (StoreDirectory) throws(FileSystemError) -> Result
    ) throws(FileStoreError) -> Result {
        guard let result = try attemptIfExists(operation, key, body) else {
            throw FileStoreError(.notFound, operation, key: key)
        }
        return result
    }

    /// The same for a call that stores something: a root that is missing, such as a cache that the system emptied, is
    /// created.
    func attemptStoring(
        _ operation: FileStoreError.Operation, _ key: String,
        _ body: (StoreDirectory) throws(FileSystemError) -> Void
    ) throws(FileStoreError) {
        let root = try root.get()
        var opened: StoreDirectory?
        do {
            try root.write { (directory) throws(FileSystemError) in
                opened = directory
                try body(directory)
            }
        } catch {
            guard opened != nil else { throw FileStoreError(opening: error, operation, key: key) }
            throw FileStoreError(error, operation, key: key)
        }
    }

    /// Runs `body` where it may wait for the device.
    func offload<Result: Sendable>(
        _ body: @escaping @Sendable (Cancellation) throws -> Result
    ) async throws -> Result {
        if configuration.waitsForDevice { return try await Cancellation.offload(body) }
        try Task.checkCancellation()
        return try body(Cancellation())
    }
}
