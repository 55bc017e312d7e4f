import Synchronization
import SystemPackage

/// Operations on one key.
extension StoreDirectory {
    /// The whole content of a key's file.
    ///
    /// - Throws: `ENOENT` if there is none, `EISDIR` for a directory, `ELOOP` for a link, `EFBIG` above the maximum.
    package func read(_ key: RelativeKey, maximumSizeInBytes: Int = .max) throws(FileSystemError) -> [UInt8] {
        try openFile(key).contents(maximumSizeInBytes: maximumSizeInBytes)
    }

    /// Opens a key's file for reading, and checks that it is a regular file of the store.
    package func openFile(_ key: RelativeKey) throws(FileSystemError) -> OpenFile {
        try fileSystem.openFile(at: location(of: key))
    }

    /// The status of a key's file or directory, or of a link itself.
    package func status(of key: RelativeKey) throws(FileSystemError) -> FileStatus {
        try fileSystem.status(at: location(of: key))
    }

    /// Throws unless a file may be a store's. Its number of hard links does not matter: a save replaces the name, and
    /// the other names keep the file (`cp -al`, `rsync --link-dest`, deduplicators).
    static func check(_ status: FileStatus, of key: RelativeKey) throws(FileSystemError) {
        switch status.type {
        case .regular: break
        case .directory: throw FileSystemError(.read, .isDirectory, path: key.path)
        case .symbolicLink: throw FileSystemError(.open, .tooManySymbolicLinkLevels, path: key.path)
        default: throw FileSystemError(.read, .notSupported, path: key.path)
        }
    }

    /// Stores bytes under a key, creating directories as needed.
    ///
    /// - Throws: As ``save(_:at:_:expecting:durability:flushesNames:beforeRename:content:)``.
    package func replace(
        _ key: RelativeKey, with bytes: RawSpan, _ mode: RenameMode = .replacing,
        durability: Durability = .full
    ) throws(FileSystemError) {
        try save(PendingFile(), at: key, mode, durability: durability) { (file) throws(FileSystemError) in
            try file.write(bytes)
        }
    }

    /// Gives a new file a modification time of its own, so that its ``FileRevision`` is unique; best effort, because
    /// not every file system can set times.
    package func setPreciseTime(of file: Descriptor) {
        guard let now = fileSystem.preciseTime else { return }
        do { try fileSystem.setTimes(accessed: nil, modified: now, of: .descriptor(file)) } catch _ {}
    }

    /// Renames a file with a private name in the root to a key's name.
    ///
    /// - Parameters:
    ///   - key: The file's key.
    ///   - mode: `.replacing`, or `.exclusive` to fail with `EEXIST` if the file exists.
    ///   - durability: Whether the rename is synchronised.
    ///   - claim: Gives the file a private name in the root and returns it. Called just before the rename, and again if
    ///     the key's directory is removed meanwhile.
    ///   - restore: Reverts `claim` after the rename failed.
    /// - Throws: The errors of `claim` and `restore`; `EXDEV` if the key's directory is on another device; `EINVAL`,
    ///   `ENOSYS` or `ENOTSUP` if an exclusive rename is requested but not supported; for an existing file as
    ///   ``place(_:_:expecting:durability:flushesNames:isFresh:)``.
    package func adopt(
        as key: RelativeKey, _ mode: RenameMode, durability: Durability,
        claim: (_ root: Descriptor) throws(FileSystemError) -> POSIXPath, restore: () throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        let isInRoot = key.path.splitLast().parent.isEmpty
        try withDurableParent(of: key, durability) { (parent, name) throws(FileSystemError) in
            try synchronizingPresence(of: key, at: parent, durability) { () throws(FileSystemError) in
                try requireReplaceable(name, at: parent, mode, key)
                let privateName = try claim(root)
                do throws(FileSystemError) {
                    try takingTurn(in: parent, of: key) { () throws(FileSystemError) in
                        try fileSystem.rename(privateName, at: root, to: name, at: parent, mode)
                    }
                } catch {
                    try restore()
                    throw error
                }
            }
            // Until both directories are synchronised, a crash may leave both names. The new name is synchronised
            // first; otherwise a crash could leave none.
            try synchronizeNames(parent, key.path, durability)
            if !isInRoot { try synchronizeNames(root, key.path, durability) }
        }
    }

    /// Calls `body`; if it fails because a file exists, makes the name of that file durable before throwing, because
    /// the process that stored the file may have been killed before doing so.
    func synchronizingPresence(
        of key: RelativeKey, at parent: Descriptor, _ durability: Durability, _ body: () throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        do throws(FileSystemError) {
            try body()
        } catch {
            if error.errno == .fileExists { try synchronizeNames(parent, key.path, durability) }
            throw error
        }
    }

    /// Throws unless a key's file may be replaced; returns whether there is one.
    @discardableResult
    func requireReplaceable(
        _ name: POSIXPath, at parent: Descriptor, _ mode: RenameMode, _ key: RelativeKey
    ) throws(FileSystemError) -> Bool {
        let status: FileStatus
        do {
            status = try fileSystem.status(name, at: parent, followsSymbolicLinks: false)
        } catch  where error.errno == .noSuchFileOrDirectory {
            return false
        }
        guard status.type != .directory else { throw FileSystemError(.open, .isDirectory, path: key.path) }
        guard mode != .exclusive else { throw FileSystemError(.open, .fileExists, path: key.path) }
        try Self.check(status, of: key)
        return true
    }

    /// Removes a key's file.
    ///
    /// - Throws: `ENOENT` if there is none, and that it is absent is durable then too; `EISDIR` for a directory; `ELOOP` or
    ///   `ENOTSUP` for a file that does not belong to the store, and is kept.
    package func unlink(_ key: RelativeKey, durability: Durability = .full) throws(FileSystemError) {
        try removing(key, durability) { (parent, name) throws(FileSystemError) in
            try takingTurn(in: parent, of: key) { () throws(FileSystemError) in
                let status = try fileSystem.status(name, at: parent, followsSymbolicLinks: false)
                guard status.type != .directory else { throw FileSystemError(.unlink, .isDirectory, path: key.path) }
                try Self.check(status, of: key)
                try fileSystem.unlink(name, at: parent)
            }
            try synchronizeNames(parent, key.path, durability)
        }
    }

    /// Creates a directory and its parents.
    package func makeDirectory(_ key: RelativeKey, durability: Durability = .full) throws(FileSystemError) {
        try requireNoOtherRoot(key.path)
        try fileSystem.createDirectories(
            key.path, at: root, permissions: .privateDirectory, resolution: Self.resolution)
        guard durability == .full else { return }
        try withDirectory(key) { (directory) throws(FileSystemError) in
            try synchronizeAncestors(of: key.path, directory)
        }
    }
}

/// Path resolution from the root to a key, and the durability of the names on the path.
extension StoreDirectory {
    /// Opens a directory of the store; nil is the root.
    package func withDirectory<Result>(
        _ key: RelativeKey?, _ body: (Descriptor) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        guard let key else { return try body(root) }
        return try fileSystem.withDirectory(key.path, at: root, resolution: Self.resolution, body)
    }

    /// Opens the directory of a key's last component; a new one is not yet durable.
    ///
    /// - Throws: `EBUSY` if the key leads into the root of another store, unless `checkingRoots` is false.
    package func withParent<Result>(
        of key: RelativeKey, creating: Bool, checkingRoots: Bool = true,
        _ body: (_ parent: Descriptor, _ name: POSIXPath) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        let (parent, name) = key.path.splitLast()
        do throws(FileSystemError) {
            guard !parent.isEmpty else { return try body(root, name) }
            if checkingRoots { try requireNoOtherRoot(parent) }
            let descriptor = try openParent(parent, creating: creating)
            defer { fileSystem.discard(descriptor) }
            return try body(descriptor, name)
        } catch {
            throw error.named(key.path)
        }
    }

    /// Throws if a directory, or one on its path, is the root of another store.
    ///
    /// Costs a few calls per level, but no listing.
    func requireNoOtherRoot(_ directory: POSIXPath) throws(FileSystemError) {
        var directory = directory
        while !directory.isEmpty {
            for marker in Self.markers {
                if try fileSystem.hasEntry(directory.appending(marker), at: root) {
                    throw FileSystemError(.open, .resourceBusy, path: directory)
                }
            }
            directory = directory.splitLast().parent
        }
    }

    /// The names by which the directory of a key-value store or of vaults is recognised without a listing.
    static let lockMarkers: [POSIXPath] = [
        .lockName, "#lock-vaults", StoreKind.keyValue.markerName, StoreKind.vaults.markerName,
    ]

    private static let markers =
        lockMarkers + ["#journal-0"] + [StoreKind.files, .values, .images, .cache].map(\.markerName)

    private func openParent(_ parent: POSIXPath, creating: Bool) throws(FileSystemError) -> Descriptor {
        func open() throws(FileSystemError) -> Descriptor {
            try fileSystem.open(
                parent, at: root, .readOnly, options: [.directory], permissions: [], resolution: Self.resolution)
        }
        do {
            return try open()
        } catch  where creating && error.errno == .noSuchFileOrDirectory {
            // `synchronizeAncestors` makes them durable, together with those that others have created.
            try fileSystem.createDirectories(
                parent, at: root, permissions: .privateDirectory, resolution: Self.resolution)
            return try open()
        }
    }

    /// Opens the directory for a key that is about to be stored; makes its name durable if the key is to be.
    ///
    /// Retries if another program removes the directory meanwhile; of two calls that hinder each other so, one makes
    /// progress each time.
    func withDurableParent<Result>(
        of key: RelativeKey, _ durability: Durability,
        _ body: (_ parent: Descriptor, _ name: POSIXPath) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        let directory = key.path.splitLast().parent
        var attempts = 0
        while true {
            do {
                return try withParent(of: key, creating: true) { (parent, name) throws(FileSystemError) in
                    if durability == .full, !directory.isEmpty { try synchronizeAncestors(of: directory, parent) }
                    return try body(parent, name)
                }
            } catch  where error.errno == .noSuchFileOrDirectory && !directory.isEmpty && attempts < 1000 {
                attempts += 1
            } catch  where error.errno == .tooManyOpenFiles || error.errno == .tooManyOpenFilesInSystem {
                // The descriptors of flushed directories are only an optimisation.
                guard flushed.removeAll() else { throw error }
            }
        }
    }

    /// Makes the names on the path of a directory durable, once per directory: its creator may not have flushed its
    /// name.
    func synchronizeAncestors(of directory: POSIXPath, _ descriptor: Descriptor) throws(FileSystemError) {
        let identity = DirectoryIdentity(try fileSystem.status(of: .descriptor(descriptor)))
        guard !flushed.contains(directory, identity) else { return }
        let parent = directory.splitLast().parent
        if parent.isEmpty {
            try fileSystem.synchronizeDirectory(root)
        } else {
            try fileSystem.withDirectory(parent, at: root, resolution: Self.resolution) {
                (above) throws(FileSystemError) in
                try synchronizeAncestors(of: parent, above)
                try fileSystem.synchronizeDirectory(above)
            }
        }
        flushed.insert(directory, identity, descriptor)
    }

    /// Opens the directory of a key's last component for its removal. If there is nothing to remove, makes the absence
    /// of the key durable, because a killed process may have removed it, or a parent directory, without a flush.
    func removing(
        _ key: RelativeKey, _ durability: Durability,
        _ body: (_ parent: Descriptor, _ name: POSIXPath) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        do throws(FileSystemError) {
            try withParent(of: key, creating: false, body)
        } catch {
            if error.errno == .noSuchFileOrDirectory, durability == .full { try synchronizeLastDirectory(on: key.path) }
            throw error
        }
    }

    /// Makes the names in the last existing directory of a path durable.
    private func synchronizeLastDirectory(on path: POSIXPath) throws(FileSystemError) {
        var directory = path.splitLast().parent
        while !directory.isEmpty {
            let descriptor: Descriptor
            do throws(FileSystemError) {
                descriptor = try fileSystem.open(
                    directory, at: root, .readOnly, options: [.directory], permissions: [], resolution: Self.resolution)
            } catch {
                guard error.errno == .noSuchFileOrDirectory else { throw error }
                directory = directory.splitLast().parent
                continue
            }
            defer { fileSystem.discard(descriptor) }
            return try synchronizeNames(descriptor, path)
        }
        try synchronizeNames(root, path)
    }

    /// Makes the names in the root durable.
    package func synchronizeRoot(_ durability: Durability) throws(FileSystemError) {
        try synchronizeNames(root, nil, durability)
    }

    /// Makes the names in a directory durable; if that fails, the change is visible but a power cut may undo it.
    package func synchronizeNames(
        _ directory: Descriptor, _ path: POSIXPath?, _ durability: Durability = .full
    ) throws(FileSystemError) {
        guard durability == .full else { return }
        do {
            try fileSystem.synchronizeDirectory(directory)
        } catch {
            throw error.withVisibleEffect(at: path ?? self.path)
        }
    }
}

extension POSIXFileSystem {
    /// Whether there is an entry of any type at a path; also false if a parent is not a directory.
    func hasEntry(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> Bool {
        do throws(FileSystemError) {
            _ = try status(path, at: directory, followsSymbolicLinks: false)
            return true
        } catch {
            // Opening the directory reports the problem with it.
            guard error.errno.isDisappearance else { throw error }
            return false
        }
    }
}

/// The directories whose names a store object has made durable.
///
/// Each is held open, so that no other directory can get its inode number and a replacement of a removed directory is
/// not mistaken for it. The number of descriptors is bounded; evicting a directory costs one flush.
final class FlushedDirectories: Sendable {
    private struct Entry {
        var path: POSIXPath
        var identity: DirectoryIdentity
        var descriptor: Descriptor
    }

    private static let limit = 8

    private let fileSystem: any POSIXFileSystem
    /// In order of last use, the most recent at the end.
    private let entries = Mutex<[Entry]>([])

    init(on fileSystem: any POSIXFileSystem) {
        self.fileSystem = fileSystem
    }

    deinit {
        removeAll()
    }

    func contains(_ path: POSIXPath, _ identity: DirectoryIdentity) -> Bool {
        entries.withLock { entries in
            guard let index = entries.lastIndex(where: { $0.path == path && $0.identity == identity }) else {
                return false
            }
            if index != entries.count - 1 { entries.append(entries.remove(at: index)) }
            return true
        }
    }

    /// Adds a directory, with a descriptor of its own.
    func insert(_ path: POSIXPath, _ identity: DirectoryIdentity, _ directory: Descriptor) {
        let own: Descriptor
        do {
            own = try fileSystem.duplicate(directory)
        } catch {
            return  // Without a descriptor, the next save flushes again.
        }
        let dropped = entries.withLock { entries in
            var dropped = entries.filter { $0.path == path }
            entries.removeAll { $0.path == path }
            if entries.count >= Self.limit { dropped.append(entries.removeFirst()) }
            entries.append(Entry(path: path, identity: identity, descriptor: own))
            return dropped
        }
        for entry in dropped { fileSystem.discard(entry.descriptor) }
    }

    /// Removes all directories; returns whether that closed a descriptor.
    @discardableResult
    func removeAll() -> Bool {
        let dropped = entries.withLock { entries in
            defer { entries = [] }
            return entries
        }
        for entry in dropped { fileSystem.discard(entry.descriptor) }
        return !dropped.isEmpty
    }
}
