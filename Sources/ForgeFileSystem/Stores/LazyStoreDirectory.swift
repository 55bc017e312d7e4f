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

    /// The threads for calls that may wait for the directory's device, which all stores of this process in it share.
    package let lane: BlockingLane

    private let turnPatience: Duration?
    private let prepare: @Sendable (POSIXPath) throws(FileSystemError) -> Void
    private let opened = Mutex<StoreDirectory?>(nil)
    /// The directory prepared for writing. The lock is held during the preparation, which may take several flushes.
    private let prepared = Mutex<StoreDirectory?>(nil)

    /// - Parameters:
    ///   - path: The directory.
    ///   - fileSystem: The file system of the directory.
    ///   - turnPatience: How long a change blocks its thread while another process changes names in its directory; nil
    ///     for changes that exclude no others.
    ///   - prepare: Prepares the directory once before the first write, after its creation.
    package init(
        _ path: POSIXPath, on fileSystem: any POSIXFileSystem, turnPatience: Duration? = StoreDirectory.turnPatience,
        prepare: @escaping @Sendable (POSIXPath) throws(FileSystemError) -> Void = { (_) throws(FileSystemError) in }
    ) {
        self.path = path
        self.fileSystem = fileSystem
        self.turnPatience = turnPatience
        lane = fileSystem is SystemFileSystem ? .lane(of: path) : BlockingLane()
        self.prepare = prepare
    }

    /// The directory at the path now; nil if there is none.
    package func existing() throws(FileSystemError) -> StoreDirectory? {
        do {
            let status = try fileSystem.status(path)
            if let directory = opened.withLock({ $0 }), directory.isDirectory(status) { return directory }
            let new = try StoreDirectory(existing: path, on: fileSystem, turnPatience: turnPatience)
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

    /// The directory that was opened last, if files that are in memory can be read in it without waiting.
    var openedLocally: StoreDirectory? {
        guard let directory = opened.withLock({ $0 }), directory.isReadCached else { return nil }
        return directory
    }

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

// MARK: Whole paths

/// Reads at the whole path of a key: one resolution, which takes half the time of one of the root and another from
/// there.
///
/// A result of nil means that the key has to be looked up in ``existing()``, because that was not called yet, a link is
/// on the way, or the state of the root may explain the failure. The calls throw `ENOENT`, also if there is no root.
extension LazyStoreDirectory {
    /// Opens a key's file for reading, and checks that it is a regular file of the store.
    package func openFile(_ key: RelativeKey) throws(FileSystemError) -> OpenFile? {
        try atWholePath(of: key) { (location) throws(FileSystemError) in try fileSystem.openFile(at: location) }
    }

    /// The status of a key's file or directory, or of a link itself.
    package func status(of key: RelativeKey) throws(FileSystemError) -> FileStatus? {
        try atWholePath(of: key) { (location) throws(FileSystemError) in try fileSystem.status(at: location) }
    }

    private func atWholePath<Result: ~Copyable>(
        of key: RelativeKey, _ body: (KeyLocation) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result? {
        guard let directory = opened.withLock({ $0 }), let location = directory.wholePath(of: key) else { return nil }
        do throws(FileSystemError) {
            return try body(location)
        } catch {
            guard error.errno != .noSuchFileOrDirectory else { throw error }
            if key.isNested { directory.checkPathForLinks() }
            return nil
        }
    }
}
