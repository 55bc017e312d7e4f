import ForgeFileSystem
import Foundation
import Synchronization
import SystemPackage

/// What every file store on a `POSIXFileSystem` is made of.
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
    private let opened = Mutex<StoreDirectory?>(nil)

    /// Files up to this size are loaded on the caller's thread: that takes less time than a hop to another.
    static let inlineLoadLimit: Int64 = 256 << 10

    init(_ configuration: Configuration) {
        self.configuration = configuration
    }

    var fileSystem: any POSIXFileSystem { configuration.fileSystem }
    var durability: Durability { configuration.options.durability }
}

// MARK: The root

extension FileStoreEngine {
    /// The open root, opened now if need be; callers at the same time wait for it.
    func directory(
        for operation: FileStoreError.Operation, _ key: String
    ) throws(FileStoreError) -> StoreDirectory {
        try opened.withLock { (directory) throws(FileStoreError) -> StoreDirectory in
            if let directory { return directory }
            let path = try configuration.root.get()
            do throws(FileSystemError) {
                let new = try StoreDirectory(path, on: fileSystem)
                try configuration.fileProtection?.apply(to: path, on: fileSystem)
                directory = new
                return new
            } catch {
                throw FileStoreError(opening: error, operation, key: key)
            }
        }
    }

    var isOpen: Bool { opened.withLock { $0 != nil } }

    /// Does something with the open root.
    func attempt<Result>(
        _ operation: FileStoreError.Operation, _ key: String,
        _ body: (StoreDirectory) throws(FileSystemError) -> Result
    ) throws(FileStoreError) -> Result {
        let directory = try directory(for: operation, key)
        do {
            return try body(directory)
        } catch {
            throw FileStoreError(error, operation, key: key)
        }
    }

    /// The same for what stores something: a root that somebody has removed, such as a cache that the system emptied,
    /// is made anew.
    func attemptStoring(
        _ operation: FileStoreError.Operation, _ key: String,
        _ body: (StoreDirectory) throws(FileSystemError) -> Void
    ) throws(FileStoreError) {
        let directory = try directory(for: operation, key)
        do {
            return try body(directory)
        } catch {
            guard error.errno == .noSuchFileOrDirectory, isRemoved(directory) else {
                throw FileStoreError(error, operation, key: key)
            }
        }
        opened.withLock { current in
            if current === directory { current = nil }
        }
        try attempt(operation, key, body)
    }

    private func isRemoved(_ directory: StoreDirectory) -> Bool {
        do {
            return try directory.isRemoved()
        } catch {
            return false  // The first failure is the one to report.
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
