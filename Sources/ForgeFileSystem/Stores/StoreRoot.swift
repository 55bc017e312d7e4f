import Synchronization
import SystemPackage

/// The directory that belongs to a store: opened by the first call that needs it, and anew once it was removed or
/// replaced.
///
/// Reading creates nothing and never waits for a flush: only a call that is about to store something creates the
/// directory, makes its name durable and removes leftovers.
package final class StoreRoot: Sendable {
    package let fileSystem: any POSIXFileSystem
    package let path: POSIXPath

    private let prepare: @Sendable (POSIXPath) throws(FileSystemError) -> Void
    private let opened = Mutex<StoreDirectory?>(nil)
    /// The directory that is prepared for writing. The lock is held during the preparation, which may take several
    /// flushes.
    private let prepared = Mutex<StoreDirectory?>(nil)

    /// - Parameters:
    ///   - path: The directory.
    ///   - fileSystem: What holds it.
    ///   - prepare: What is to be done once before the directory is first written to, beyond creating it.
    package init(
        _ path: POSIXPath, on fileSystem: any POSIXFileSystem,
        prepare: @escaping @Sendable (POSIXPath) throws(FileSystemError) -> Void = { (_) throws(FileSystemError) in }
    ) {
        self.path = path
        self.fileSystem = fileSystem
        self.prepare = prepare
    }

    /// The directory that the path leads to now; nil if there is none.
    package func existing() throws(FileSystemError) -> StoreDirectory? {
        do {
            let status = try fileSystem.status(path)
            if let directory = opened.withLock({ $0 }), directory.isDirectory(status) { return directory }
            let new = try StoreDirectory(existing: path, on: fileSystem)
            return opened.withLock { directory in
                // Another thread may have opened it meanwhile; one object records the names of temporary files.
                if let directory, directory.isSame(as: new) { return directory }
                directory = new
                return new
            }
        } catch  where error.errno == .noSuchFileOrDirectory {
            opened.withLock { $0 = nil }
            return nil
        }
    }

    /// The directory that the path leads to now, created durably if it is missing, and ready to be written to.
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

    /// Calls `body` with the directory, and once more if the directory was removed or replaced meanwhile.
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
