import Synchronization
import SystemPackage

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

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

    /// Throws `EBUSY` if the root belongs to a store of another kind with one file per key.
    func requireNoOtherFiles(than kind: StoreKind) throws(FileSystemError) {
        do throws(FileSystemError) {
            try fileSystem.requireNoOtherFiles(than: kind, at: root)
        } catch {
            throw inRoot(error)
        }
    }

    /// Throws `EBUSY` if a store in the root would hide files of another one.
    func requireFree(for kind: StoreKind) throws(FileSystemError) {
        do throws(FileSystemError) { try fileSystem.requireFree(root, for: kind) } catch { throw inRoot(error) }
    }

    /// An error with the whole path, of which it has the part below the root.
    private func inRoot(_ error: FileSystemError) -> FileSystemError {
        var named = error
        named.path = error.path.map(path.appending) ?? path
        return named
    }

    /// Marks the root as that of a store, unless it is marked already.
    func mark(as kind: StoreKind) throws(FileSystemError) {
        guard try !fileSystem.isMarked(root, as: kind) else { return }
        try openJournal().withName(POSIXPath.temporaryPrefix, in: "", at: root, isDurable: false) {
            (name) throws(FileSystemError) in try fileSystem.markIfSpace(root, as: kind, temporary: name)
        }
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
            let directory = try openDirectory(parent, at: location.directory, resolution: location.resolution)
            defer { discard(directory) }
            return try status(name, at: directory, followsSymbolicLinks: false)
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

/// The root directory of a store, opened by the first call that needs it, and reopened after it was removed or
/// replaced.
///
/// Reads create nothing and never wait for a flush: only a call that is about to write creates the directory, makes its
/// name durable, removes leftovers and marks the directory.
package final class LazyStoreDirectory: Sendable {
    package let fileSystem: any POSIXFileSystem
    package let path: POSIXPath

    /// The threads for calls that may wait for the directory's device, which all stores of this process in it share.
    package let lane: BlockingLane

    private let kind: StoreKind
    private let turnPatience: Duration?
    private let prepare: @Sendable (POSIXPath) throws(FileSystemError) -> Void
    private let opened = Mutex<StoreDirectory?>(nil)
    /// The directory prepared for writing. The lock is held during the preparation, which may take several flushes.
    private let prepared = Mutex<StoreDirectory?>(nil)

    /// - Parameters:
    ///   - path: The directory.
    ///   - kind: The kind of the store, with which the first write marks the directory.
    ///   - fileSystem: The file system of the directory.
    ///   - turnPatience: How long a change blocks its thread while another process changes names in its directory; nil
    ///     for changes that exclude no others.
    ///   - prepare: Prepares the directory once before the first write, after its creation.
    package init(
        _ path: POSIXPath, of kind: StoreKind, on fileSystem: any POSIXFileSystem,
        turnPatience: Duration? = StoreDirectory.turnPatience,
        prepare: @escaping @Sendable (POSIXPath) throws(FileSystemError) -> Void = { (_) throws(FileSystemError) in }
    ) {
        self.path = path
        self.kind = kind
        self.fileSystem = fileSystem
        self.turnPatience = turnPatience
        lane = fileSystem is SystemFileSystem ? .lane(of: path) : BlockingLane()
        self.prepare = prepare
    }

    /// The directory at the path now; nil if there is none.
    ///
    /// - Throws: `EBUSY` if it belongs to another store with one file per key, of another kind.
    package func existing() throws(FileSystemError) -> StoreDirectory? {
        do {
            let status = try fileSystem.status(path)
            if let directory = opened.withLock({ $0 }), directory.isDirectory(status) { return directory }
            let new = try StoreDirectory(existing: path, on: fileSystem, turnPatience: turnPatience)
            try new.requireNoOtherFiles(than: kind)
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
            try directory.requireFree(for: kind)
            try prepare(path)
            try directory.prepareForWriting()
            try directory.mark(as: kind)
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

extension SystemFileSystem {
    /// Whether a file system is one on which opening and closing files never waits for a server.
    func isLocal(_ descriptor: Descriptor) -> Bool { sysIsLocal(descriptor.rawValue) }
}

/// Files that are opened without waiting for a device, because the kernel has their names and inodes in memory
/// (`RESOLVE_CACHED` of `openat2(2)`).
///
/// So calls can read on the caller's thread, which must not wait. There are none on file systems that may ask a server
/// when a file is opened or closed, nor on systems without such calls.
extension LazyStoreDirectory {
    /// Opens a key's file if that needs no waiting; nil if it has to be opened otherwise, or that reports an error.
    ///
    /// - Throws: `ENOENT` if there is no such file.
    package func openCachedFile(_ key: RelativeKey) throws(FileSystemError) -> OpenFile? {
        guard let (descriptor, status) = try openCached(key, isForStatus: false) else { return nil }
        guard status.type == .regular else {
            fileSystem.discard(descriptor)
            return nil
        }
        return OpenFile(owning: descriptor, status, named: key.path, on: fileSystem)
    }

    /// The status of a key's file or directory, or of a link itself, if that needs no waiting; otherwise as
    /// ``openCachedFile(_:)``.
    package func cachedStatus(of key: RelativeKey) throws(FileSystemError) -> FileStatus? {
        guard let (descriptor, status) = try openCached(key, isForStatus: true) else { return nil }
        SystemFileSystem().discard(descriptor)
        return status
    }

    private func openCached(
        _ key: RelativeKey, isForStatus: Bool
    ) throws(FileSystemError) -> (Descriptor, FileStatus)? {
        guard let directory = openedLocally, let location = directory.wholePath(of: key),
            !location.path.containsNUL
        else { return nil }
        let descriptor = sysOpenCached(
            sysDirectory(location.directory), location.path, isForStatus: isForStatus, location.resolution)
        guard descriptor >= 0 else {
            switch errno {
            case ENOENT: throw FileSystemError(.open, .noSuchFileOrDirectory, path: key.path)
            case ENOSYS, EINVAL, EPERM: directory.isReadCached = false
            default: break
            }
            return nil
        }
        let file = Descriptor(rawValue: descriptor)
        do {
            let status = try fileSystem.status(of: .descriptor(file))
            if directory.isOnSameDevice(status) { return (file, status) }
            // Something is mounted below the root: maybe a file system on which opening waits.
            directory.isReadCached = false
        } catch _ {}  // The other way reports the problem.
        fileSystem.discard(file)
        return nil
    }
}
