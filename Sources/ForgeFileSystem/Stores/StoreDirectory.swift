import Synchronization
import SystemPackage

/// The open root directory of a store with one file per key; all of its disk access goes through this class.
///
/// The root is held open, and every key is resolved from it without following links or leaving it, so nothing outside
/// can be reached whatever happens to the tree meanwhile. Files are 0600 and directories 0700. Files that the store
/// cannot have created are never changed (``OwnFiles``).
package final class StoreDirectory: Sendable {
    /// The file system that holds the store.
    package let fileSystem: any POSIXFileSystem

    /// The path of the root.
    package let path: POSIXPath

    /// How long a change blocks its thread while another process changes names in the same directory; nil if changes
    /// exclude no others.
    package let turnPatience: Duration?

    let root: Descriptor
    let turns = Turns()
    let flushed: FlushedDirectories
    /// False if a link was found on the path of the root.
    private let hasPathWithoutLinks = Atomic(true)
    private let identity: DirectoryIdentity
    private let mayReadCached: Atomic<Bool>
    private let journal = Mutex<TemporaryFileJournal?>(nil)

    /// How long synchronous calls wait for a turn by default.
    package static let turnPatience: Duration = .seconds(30)

    /// The limits on the resolution of keys.
    static let resolution: PathResolution = [.beneath, .noSymbolicLinks]

    /// Opens the root of a store for writing, creating it durably if it is missing.
    ///
    /// Removes the recorded temporary files of processes that have ended.
    package convenience init(_ path: POSIXPath, on fileSystem: any POSIXFileSystem) throws(FileSystemError) {
        try fileSystem.makeStoreDirectories(path)
        try self.init(existing: path, on: fileSystem)
        try prepareForWriting()
    }

    /// Opens an existing root, and changes nothing.
    ///
    /// - Throws: `EBUSY` if it is the directory of a key-value store or of vaults, whose files have names that are
    ///   valid keys.
    package init(
        existing path: POSIXPath, on fileSystem: any POSIXFileSystem,
        turnPatience: Duration? = StoreDirectory.turnPatience
    ) throws(FileSystemError) {
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
        self.turnPatience = turnPatience
        self.root = root
        flushed = FlushedDirectories(on: fileSystem)
        mayReadCached = Atomic((fileSystem as? SystemFileSystem)?.isLocal(root) ?? false)
    }

    deinit {
        fileSystem.discard(root)
    }

    /// Whether a path with this status still leads to this directory.
    func isDirectory(_ status: FileStatus) -> Bool { DirectoryIdentity(status) == identity }

    func isSame(as other: StoreDirectory) -> Bool { identity == other.identity }

    /// Whether files that are in memory can be read without waiting for a device or a server (``LazyStoreDirectory/openCachedFile(_:)``).
    var isReadCached: Bool {
        get { mayReadCached.load(ordering: .relaxed) }
        set { mayReadCached.store(newValue, ordering: .relaxed) }
    }

    func isOnSameDevice(_ status: FileStatus) -> Bool { status.device == identity.device }

    /// The location of a key from this open directory.
    func location(of key: RelativeKey) -> KeyLocation {
        KeyLocation(key: key, directory: root, path: key.path, resolution: Self.resolution)
    }

    /// The whole path of a key; nil if a link may be on the way, so that the key has to be looked up from here.
    ///
    /// The last component is never followed, so a key of one component needs no limits. For others the whole path must
    /// be free of links, that of the root included.
    func wholePath(of key: RelativeKey) -> KeyLocation? {
        guard !key.isNested || hasPathWithoutLinks.load(ordering: .relaxed) else { return nil }
        return KeyLocation(
            key: key, directory: .workingDirectory, path: path.appending(key.path),
            resolution: key.isNested ? .noSymbolicLinks : [])
    }

    /// Looks for a link on the path of the root, after a whole path could not be resolved.
    func checkPathForLinks() {
        do throws(FileSystemError) {
            try fileSystem.withDirectory(path, at: .workingDirectory, resolution: .noSymbolicLinks) { _ in }
        } catch {
            hasPathWithoutLinks.store(false, ordering: .relaxed)
        }
    }

    /// Prepares the journal of temporary files, and removes those of processes that have ended.
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
    /// Whether the caller lacks permission.
    package var isRefusal: Bool { self == .permissionDenied || self == .notPermitted }

    /// Whether a listed entry has disappeared or been replaced by a file of another type.
    package var isDisappearance: Bool {
        self == .noSuchFileOrDirectory || self == .notDirectory || self == .tooManySymbolicLinkLevels
    }
}

/// Where the file of a key is looked up: a path from an open directory, and the limits on its resolution.
///
/// Either the key's path from the open root, or the whole path, which needs no open root: what is found there is in the
/// directory that is at the root's path now, also if the root was replaced.
struct KeyLocation: Sendable {
    let key: RelativeKey
    let directory: Descriptor
    let path: POSIXPath
    let resolution: PathResolution
}

extension POSIXFileSystem {
    /// Opens a key's file for reading, and checks that it is a regular file of the store.
    func openFile(at location: KeyLocation) throws(FileSystemError) -> OpenFile {
        // Without nonBlocking, opening another program's FIFO would block.
        let file = try OpenFile(
            location.path, at: location.directory, options: [.noFollow, .nonBlocking],
            resolution: location.resolution, named: location.key.path, on: self)
        try StoreDirectory.check(file.status, of: location.key)
        return file
    }

    /// The status of a key's file or directory, or of a link itself.
    func status(at location: KeyLocation) throws(FileSystemError) -> FileStatus {
        try namingErrors(after: location.key) { () throws(FileSystemError) in
            guard location.key.isNested else {
                return try status(location.path, at: location.directory, followsSymbolicLinks: false)
            }
            let (parent, name) = location.path.splitLast()
            return try withDirectory(parent, at: location.directory, resolution: location.resolution) {
                (directory) throws(FileSystemError) in
                try status(name, at: directory, followsSymbolicLinks: false)
            }
        }
    }

    /// Gives an error the path of a key, relative to the root, whichever path was resolved.
    private func namingErrors<Result>(
        after key: RelativeKey, _ body: () throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        do throws(FileSystemError) {
            return try body()
        } catch {
            var named = error
            named.path = key.path
            throw named
        }
    }
}
