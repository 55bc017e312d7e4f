import Synchronization
import SystemPackage

/// The root directory of a store, opened by the first call that needs it, and reopened after it was removed or
/// replaced.
///
/// Reads create nothing and never wait for a flush: only a call that is about to write creates the directory, makes its
/// name durable and removes leftovers.
package final class LazyStoreDirectory: Sendable {
    package let fileSystem: any POSIXFileSystem
    package let path: POSIXPath

    private let prepare: @Sendable (POSIXPath) throws(FileSystemError) -> Void
    private let opened = Mutex<StoreDirectory?>(nil)
    /// The directory prepared for writing. The lock is held during the preparation, which may take several flushes.
    private let prepared = Mutex<StoreDirectory?>(nil)

    /// - Parameters:
    ///   - path: The directory.
    ///   - fileSystem: The file system of the directory.
    ///   - prepare: Prepares the directory once before the first write, after its creation.
    package init(
        _ path: POSIXPath, on fileSystem: any POSIXFileSystem,
        prepare: @escaping @Sendable (POSIXPath) throws(FileSystemError) -> Void = { (_) throws(FileSystemError) in }
    ) {
        self.path = path
        self.fileSystem = fileSystem
        self.prepare = prepare
    }

    /// The directory at the path now; nil if there is none.
    package func existing() throws(FileSystemError) -> StoreDirectory? {
        do {
            let status = try fileSystem.status(path)
            if let directory = opened.withLock({ $0 }), directory.isDirectory(status) { return directory }
            let new = try StoreDirectory(existing: path, on: fileSystem)
            return opened.withLock { directory in
                // Another thread may have opened it meanwhile; only one object may record the names of temporary files.
                if let directory, directory.isSame(as: new) { return directory }
                directory = new
                return new
            }
        } catch  where error.errno == .noSuchFileOrDirectory {
            opened.withLock { $0 = nil }
            return nil
        }
    }

    /// Whether a directory was prepared for writing, so that the next write waits for no flush unless it was replaced.
    package var isPrepared: Bool { prepared.withLockIfAvailable { $0 != nil } ?? false }

    /// The directory at the path now, created durably if it is missing, and prepared for writing.
    package func forWriting() throws(FileSystemError) -> StoreDirectory {
        try prepared.withLock { (prepared) throws(FileSystemError) in
            if let directory = try existing(), directory === prepared { return directory }
            prepared = nil
            try fileSystem.makeStoreDirectories(path)
            guard let directory = try existing() else {
                throw FileSystemError(.open, .noSuchFileOrDirectory, path: path)
            }
            try prepare(path)
            try directory.prepareForWriting()
            prepared = directory
            return directory
        }
    }

    /// Calls `body` with the directory, and again if the directory was removed or replaced meanwhile.
    package func write<Result>(
        _ body: (StoreDirectory) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        let directory = try forWriting()
        do {
            return try body(directory)
        } catch  where error.errno == .noSuchFileOrDirectory {
            let current = try forWriting()
            guard current !== directory else { throw error }
            return try body(current)
        }
    }
}
