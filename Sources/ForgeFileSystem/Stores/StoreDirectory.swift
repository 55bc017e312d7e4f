import Synchronization
import SystemPackage

/// The open root directory of a store that keeps one file for each key: the only way such a store reaches the disk.
///
/// The root is held open, and every key is resolved from it without following a link or leaving it, so nothing outside
/// can be reached whatever happens to the tree meanwhile. Files are 0600 and directories 0700. What the store cannot
/// have made is never changed (``OwnFiles``).
package final class StoreDirectory: Sendable {
    /// The file system that holds the store.
    package let fileSystem: any POSIXFileSystem

    /// Where the root is.
    package let path: POSIXPath

    let root: Descriptor
    let flushed: FlushedDirectories
    private let identity: DirectoryIdentity
    private let journal = Mutex<TemporaryFileJournal?>(nil)

    /// How keys are resolved.
    static let resolution: PathResolution = [.beneath, .noSymbolicLinks]

    /// Opens the root of a store, creating it durably if it is missing, to be written.
    ///
    /// Removes the recorded temporary files of processes that have ended.
    package convenience init(_ path: POSIXPath, on fileSystem: any POSIXFileSystem) throws(FileSystemError) {
        try fileSystem.makeStoreDirectories(path)
        try self.init(existing: path, on: fileSystem)
        try prepareForWriting()
    }

    /// Opens a root that exists, and changes nothing.
    ///
    /// - Throws: `EBUSY` if it is the directory of a key-value store or of vaults, whose files have names that are keys.
    package init(existing path: POSIXPath, on fileSystem: any POSIXFileSystem) throws(FileSystemError) {
        let root = try fileSystem.open(path, .readOnly, options: [.directory], permissions: [])
        do throws(FileSystemError) {
            for marker in Self.lockMarkers where try fileSystem.hasEntry(marker, at: root) {
                throw FileSystemError(.open, .resourceBusy, path: path)
            }
            identity = DirectoryIdentity(try fileSystem.status(of: .descriptor(root)))
        } catch {
            fileSystem.discard(root)
            throw error
        }
        self.fileSystem = fileSystem
        self.path = path
        self.root = root
        flushed = FlushedDirectories(on: fileSystem)
    }

    deinit {
        fileSystem.discard(root)
    }

    /// Whether a path that has this status still leads to this directory.
    func isDirectory(_ status: FileStatus) -> Bool { DirectoryIdentity(status) == identity }

    func isSame(as other: StoreDirectory) -> Bool { identity == other.identity }

    /// Makes sure that temporary files can be recorded, and removes those of processes that have ended.
    package func prepareForWriting() throws(FileSystemError) {
        _ = try openJournal()
    }

    /// This object's journal of temporary files; the first call opens or creates it.
    func openJournal() throws(FileSystemError) -> TemporaryFileJournal {
        try journal.withLock { (journal) throws(FileSystemError) in
            if let journal { return journal }
            let new = try TemporaryFileJournal(at: root, on: fileSystem)
            journal = new
            return new
        }
    }
}

extension Errno {
    /// Whether the caller may not do this.
    package var isRefusal: Bool { self == .permissionDenied || self == .notPermitted }

    /// Whether what a listing has just shown is gone or has become something else.
    package var isDisappearance: Bool {
        self == .noSuchFileOrDirectory || self == .notDirectory || self == .tooManySymbolicLinkLevels
    }
}
