import SystemPackage

/// The origin of a temporary file or trash, according to the records in a store's root.
package enum TemporaryFileOrigin: Hashable, Sendable {
    /// The store object that recorded it is writing a file now, and may be using it.
    case inUse

    /// Its owner has ended, or no longer uses it. The next store object that writes removes it.
    case orphaned

    /// Its owner has ended or no longer uses it, and its directory is not recorded. No store removes it.
    case unrecorded

    /// Looks up a file in the records of a root, and changes nothing.
    ///
    /// The record of a slot is written before the file is created. So if the file exists when this returns, the record
    /// that was read is the one that its owner wrote, or a later one.
    ///
    /// - Parameters:
    ///   - path: The path of the file; it begins with `root`.
    ///   - root: The root of a store.
    ///   - fileSystem: The file system of the store.
    /// - Returns: Nil if no record of the root has the name, or the file is in the directory of another store.
    /// - Throws: The error of reading the root or a record; a record that the caller may not read is skipped.
    package static func find(
        _ path: POSIXPath, below root: POSIXPath, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> TemporaryFileOrigin? {
        let (parent, name) = path.splitLast()
        guard let parts = name.recordedParts else { return nil }
        let directory = POSIXPath(parent.bytes.dropFirst(root.count).drop { $0 == UInt8(ascii: "/") })
        let descriptor = try fileSystem.openDirectory(root)
        defer { fileSystem.discard(descriptor) }
        var origin: TemporaryFileOrigin?
        try TemporaryFileJournalFile.forEach(at: descriptor, on: fileSystem) { (file) throws(FileSystemError) in
            guard origin == nil, file.id == parts.id else { return }
            guard try file.directory(ofSlot: parts.slot) == directory else {
                origin = .unrecorded
                return
            }
            guard try !fileSystem.isInOtherStore(directory, below: descriptor) else { return }
            origin = try file.isOwned() ? .inUse : .orphaned
        }
        return origin
    }
}

/// Reading the journals of a root without becoming their owner; creates and writes nothing.
extension TemporaryFileJournalFile {
    /// Calls `body` with each readable journal, regardless of whether its owner is alive.
    static func forEach(
        at root: Descriptor, on fileSystem: any POSIXFileSystem,
        _ body: (TemporaryFileJournalFile) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        for number in 0..<maximumCount {
            do throws(FileSystemError) {
                let descriptor = try fileSystem.openRegularFile(name(number), at: root).descriptor
                try fileSystem.closing(descriptor) { () throws(FileSystemError) in
                    let header = try fileSystem.readBytes(of: descriptor, at: 0, count: headerLength)
                    guard let id = id(in: header) else { return }
                    try body(TemporaryFileJournalFile(id: id, fileSystem: fileSystem, descriptor: descriptor))
                }
            } catch  where error.errno == .noSuchFileOrDirectory {
                return
            } catch  where error.errno.isForeign || error.errno == .notSupported {
                continue
            } catch  where error.errno.isRefusal {
                guard try isRefusedAlone(number, at: root, on: fileSystem) else { throw error }
            }
        }
    }

    /// Whether only this file is refused, as another user's is. If the root is, the search for the last number ends: it
    /// would try all of them.
    static func isRefusedAlone(
        _ number: Int, at root: Descriptor, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> Bool {
        try fileSystem.exists(name(number), at: root, followsSymbolicLinks: false)
    }

    /// The identifiers in the names of all owners of journals in a root, alive or not.
    static func allIDs(at root: Descriptor, on fileSystem: any POSIXFileSystem) throws(FileSystemError) -> [POSIXPath] {
        var ids: [POSIXPath] = []
        try forEach(at: root, on: fileSystem) { (file) throws(FileSystemError) in ids.append(file.id) }
        return ids
    }

    /// Whether a store object holds the journal's lock.
    ///
    /// `flock(2)` cannot query a lock, so a shared lock is taken and released at once. A writer that looks for a
    /// journal without an owner at that moment skips this one.
    func isOwned() throws(FileSystemError) -> Bool {
        guard try fileSystem.tryLock(descriptor, .shared) else { return true }
        try fileSystem.lock(descriptor, .unlocked, waiting: false)
        return false
    }
}

/// Removal of the temporary files and trash of an owner that has ended.
extension TemporaryFileJournalFile {
    /// Removes the files and trash of all slots of an owner that has ended.
    ///
    /// Files without permission for removal, mount points, and files in other stores or with several hard links are
    /// kept; that does not prevent writes to the store.
    ///
    /// - Returns: The slots whose files are kept.
    func removeLeftovers(_ directories: [POSIXPath?], at root: Descriptor) throws(FileSystemError) -> Set<Int> {
        var kept: Set<Int> = []
        for (slot, directory) in directories.enumerated() {
            guard let directory else { continue }
            do throws(FileSystemError) {
                guard !directory.isEmpty else {
                    try removeLeftovers(slot, in: root, at: directory, below: root, &kept)
                    continue
                }
                let parent = try fileSystem.openDirectory(directory, at: root, resolution: StoreDirectory.resolution)
                defer { fileSystem.discard(parent) }
                try removeLeftovers(slot, in: parent, at: directory, below: root, &kept)
            } catch  where error.errno.isRefusal || error.errno == .resourceBusy {
                // The directory cannot be entered now, or a file system is mounted in it; its record stays, so that a
                // later owner can remove it.
                kept.insert(slot)
            } catch  where error.errno.isDisappearance || error.errno.isUnusablePath {
                continue
            }
        }
        return kept
    }

    /// Removes the file and the trash of a slot from an open directory, unless that is in another store.
    private func removeLeftovers(
        _ slot: Int, in directory: Descriptor, at path: POSIXPath, below root: Descriptor, _ kept: inout Set<Int>
    ) throws(FileSystemError) {
        let temporary = name(POSIXPath.temporaryPrefix, slot: slot)
        let trash = name(POSIXPath.trashPrefix, slot: slot)
        let file = try status(of: temporary, in: directory)
        let tree = try status(of: trash, in: directory)
        guard file != nil || tree != nil else { return }
        kept.insert(slot)
        guard try !fileSystem.isInOtherStore(path, below: root) else { return }
        if let file {
            guard try isRemovable(file, in: directory) else { return }
            try fileSystem.unlink(temporary, at: directory)
        }
        if let tree {
            guard tree.type == .directory else { return }
            // The owner may not have flushed the rename to this name: after a power cut part of the tree would
            // reappear.
            try fileSystem.synchronizeDirectory(directory)
            let files = try OwnFiles(fileSystem, in: directory, temporaryIDs: [id])
            guard try files.removeTree(trash, at: directory) else { return }
        }
        kept.remove(slot)
    }

    /// Whether this is a regular file with one name, or with a second one that is a key in the same directory: without
    /// exclusive rename, a file that must not replace another gets its key by a hard link.
    private func isRemovable(_ status: FileStatus, in directory: Descriptor) throws(FileSystemError) -> Bool {
        guard status.type == .regular else { return false }
        guard status.linkCount > 1 else { return true }
        guard status.linkCount == 2 else { return false }
        return try fileSystem.entries(of: directory).contains {
            $0.inode == status.inode && $0.type == .regular && $0.name.isKey
        }
    }

    private func status(of name: POSIXPath, in directory: Descriptor) throws(FileSystemError) -> FileStatus? {
        do {
            return try fileSystem.status(name, at: directory, followsSymbolicLinks: false)
        } catch  where error.errno == .noSuchFileOrDirectory {
            return nil
        }
    }
}

extension Errno {
    /// Whether a path leads outside the store, or the file system does not support such names: the record comes from
    /// elsewhere.
    fileprivate var isUnusablePath: Bool {
        self == .improperLink || self == .invalidArgument || self == .fileNameTooLong
    }
}
