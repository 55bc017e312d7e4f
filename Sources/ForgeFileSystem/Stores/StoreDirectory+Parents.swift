import Synchronization
import SystemPackage

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
        return try fileSystem.withPathInErrors(key.path) { () throws(FileSystemError) -> Result in
            guard !parent.isEmpty else { return try body(root, name) }
            if checkingRoots { try requireNoOtherRoot(parent) }
            let descriptor = try openParent(parent, creating: creating)
            defer { fileSystem.discard(descriptor) }
            return try body(descriptor, name)
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
    /// Retries if another program removes the directory meanwhile; of two that do so, one makes progress each time.
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
