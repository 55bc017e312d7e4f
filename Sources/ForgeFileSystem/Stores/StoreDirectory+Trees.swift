package import SystemPackage

/// One file or directory of a store.
package struct StoreEntry: Sendable {
    /// The path relative to the root; its bytes need not be a valid key if another program put the file there.
    package var path: POSIXPath
    package var type: FileType
    package var inode: UInt64
}

extension StoreDirectory {
    /// Lists a directory of the store, nil being the root; names that stores reserve are omitted.
    ///
    /// Links are listed but never followed. Entries that disappear meanwhile are omitted.
    package func list(_ key: RelativeKey?, isRecursive: Bool) throws(FileSystemError) -> [StoreEntry] {
        var found: [StoreEntry] = []
        try forEachEntry(of: key, isRecursive: isRecursive) { (entry, _, _) throws(FileSystemError) in
            found.append(entry)
        }
        return found
    }

    /// Calls `body` for each entry of a directory of the store, with its parent directory and its name.
    package func forEachEntry(
        of key: RelativeKey?, isRecursive: Bool,
        _ body: (StoreEntry, _ parent: Descriptor, _ name: POSIXPath) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        try withDirectory(key) { (directory) throws(FileSystemError) in
            try visit(directory, prefix: key?.path, depth: 0, isRecursive: isRecursive, body)
        }
    }

    /// Whether this is a directory of another user that cannot be read, such as `lost+found`: it is foreign, like a
    /// file that no store creates.
    package func isUnreadable(
        _ name: POSIXPath, at directory: Descriptor, _ status: FileStatus
    ) throws(FileSystemError) -> Bool {
        guard status.type == .directory, status.owner != fileSystem.effectiveUser else { return false }
        do throws(FileSystemError) {
            try fileSystem.withDirectory(name, at: directory, resolution: Self.resolution) { _ in }
            return false
        } catch  where error.errno.isRefusal {
            return true
        } catch  where error.errno.isDisappearance {
            return false
        }
    }

    private func visit(
        _ directory: Descriptor, prefix: POSIXPath?, depth: Int, isRecursive: Bool,
        _ body: (StoreEntry, _ parent: Descriptor, _ name: POSIXPath) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        let entries: [DirectoryEntry]
        do throws(FileSystemError) {
            entries = try fileSystem.entries(of: directory)
        } catch  where depth > 0 && error.errno == .noSuchFileOrDirectory {
            return  // The directory was removed after it was opened.
        }
        // Entries of another store's root are not listed.
        if depth > 0, entries.contains(where: { $0.name.isStoreMarker }) { return }
        for entry in entries where !entry.name.isReservedName {
            let path = prefix?.appending(entry.name) ?? entry.name
            try body(StoreEntry(path: path, type: entry.type, inode: entry.inode), directory, entry.name)
            // No valid key is deeper, so there are no files of the store.
            guard isRecursive, entry.type == .directory, depth < RelativeKey.maximumDepth else { continue }
            let below: Descriptor
            do throws(FileSystemError) {
                below = try fileSystem.open(
                    entry.name, at: directory, .readOnly, options: [.directory], permissions: [],
                    resolution: Self.resolution)
            } catch  where error.errno.isDisappearance {
                continue
            } catch  where error.errno.isRefusal {
                guard try fileSystem.isOfAnotherUser(entry.name, at: directory) else { throw error }
                continue
            }
            defer { fileSystem.discard(below) }
            try visit(below, prefix: path, depth: depth + 1, isRecursive: true, body)
        }
    }

    /// Removes a key's directory tree: a durable rename removes it atomically, and the files are deleted afterwards.
    ///
    /// - Throws: `ENOENT` if there is none, which is durable too; `ENOTEMPTY` with the path of an entry that does not
    ///   belong to the store (``OwnFiles``), in which case nothing was removed; the error of an entry that cannot be
    ///   removed, in which case the tree has its name again, with what is left.
    package func removeTree(_ key: RelativeKey, durability: Durability = .full) throws(FileSystemError) {
        try removing(key, durability) { (parent, name) throws(FileSystemError) in
            guard try fileSystem.status(name, at: parent, followsSymbolicLinks: false).type == .directory else {
                throw FileSystemError(.removeDirectory, .notDirectory, path: key.path)
            }
            let journal = try openJournal()
            let ownFiles = try OwnFiles(
                fileSystem, in: parent,
                temporaryIDs: try TemporaryFileJournalFile.allIDs(at: root, on: fileSystem) + [journal.id])
            try requireOwn(ownFiles, name, at: parent, key)
            try journal.withName(
                POSIXPath.trashPrefix, in: key.path.splitLast().parent, at: parent, isDurable: durability == .full
            ) { (trash) throws(FileSystemError) in
                try takingTurn(in: parent, of: key) { () throws(FileSystemError) in
                    // The tree may have been replaced by a file since.
                    guard try fileSystem.status(name, at: parent, followsSymbolicLinks: false).type == .directory else {
                        throw FileSystemError(.removeDirectory, .notDirectory, path: key.path)
                    }
                    try fileSystem.rename(name, at: parent, to: trash, at: parent, .replacing)
                }
                flushed.removeAll()
                try synchronizeNames(parent, key.path, durability)
                let left = try removeOrPutBack(trash, as: name, key.path, at: parent, ownFiles)
                // Before the name may be reused, or a power cut could leave the tree unrecorded.
                try synchronizeNames(parent, key.path, durability)
                if let left { throw left }
            }
        }
    }

    /// Removes a tree that was renamed to `trash`; if something in it cannot be removed, what is left gets its name
    /// back, so that no file is hidden.
    ///
    /// - Returns: Why something is left, with a path below `path`, that of the tree in the store; nil if it is gone.
    /// - Throws: The first error if what is left keeps the name `trash`, because its own is taken again.
    private func removeOrPutBack(
        _ trash: POSIXPath, as name: POSIXPath, _ path: POSIXPath, at parent: Descriptor, _ ownFiles: OwnFiles
    ) throws(FileSystemError) -> FileSystemError? {
        var left: FileSystemError
        do throws(FileSystemError) {
            if try ownFiles.removeTree(trash, at: parent) { return nil }
            // Another program has added an entry to the tree meanwhile.
            left = FileSystemError(.removeDirectory, .directoryNotEmpty, path: path)
        } catch {
            left = error
        }
        do throws(FileSystemError) {
            try fileSystem.rename(trash, at: parent, to: name, at: parent, .replacing)
        } catch {
            throw left
        }
        if let failed = left.path?.bytes, failed.starts(with: trash.bytes) {
            left.path = POSIXPath(path.bytes + failed.dropFirst(trash.bytes.count))
        }
        return left
    }

    private func requireOwn(
        _ ownFiles: OwnFiles, _ name: POSIXPath, at parent: Descriptor, _ key: RelativeKey
    ) throws(FileSystemError) {
        let directory = try fileSystem.openDirectory(name, at: parent, resolution: Self.resolution)
        defer { fileSystem.discard(directory) }
        let foreign = try ownFiles.firstForeign(in: directory, prefix: key.path)
        if let foreign { throw FileSystemError(.removeDirectory, .directoryNotEmpty, path: foreign) }
    }
}

/// The removal of everything that belongs to the store.
extension StoreDirectory {
    /// The maximum number of directories that are renamed before one flush.
    private static let groupSize = 64

    /// Removes all files and directories with valid keys (``OwnFiles``); those of other programs, and the directories
    /// that contain them, are kept.
    ///
    /// Every entry of the root is removed atomically: a directory is renamed first, and the next store that writes
    /// completes an interrupted removal. Directories with entries of other programs, directories that the file system
    /// cannot rename, and those of a full disk that has no space for a record, are removed file by file.
    ///
    /// - Throws: The first error of an entry that could not be removed, with its path, after all others were removed.
    package func removeAll(durability: Durability = .full) throws(FileSystemError) {
        defer { flushed.removeAll() }
        var failure: FileSystemError?
        let busy = try removeWholeDirectories(durability, &failure)
        _ = try OwnFiles(fileSystem, in: root, takingTurnsOf: self).removeContents(
            of: root, prefix: nil, except: busy
        ) {
            (error) throws(FileSystemError) in
            failure = failure ?? error
        } didStay: { (directory, path) throws(FileSystemError) in
            try synchronizeNames(directory, path, durability)
        }
        if let failure { throw failure }
    }

    /// Removes the directories of the root in which everything belongs to the store.
    ///
    /// - Returns: Those on which a file system is mounted, which must be kept.
    private func removeWholeDirectories(
        _ durability: Durability, _ failure: inout FileSystemError?
    ) throws(FileSystemError) -> Set<POSIXPath> {
        var names = try fileSystem.entries(of: root).filter { $0.type == .directory && $0.name.isKey }.map(\.name)[...]
        guard !names.isEmpty else { return [] }
        var busy: Set<POSIXPath> = []
        do throws(FileSystemError) {
            let journal = try openJournal()
            let ownFiles = try OwnFiles(
                fileSystem, in: root,
                temporaryIDs: try TemporaryFileJournalFile.allIDs(at: root, on: fileSystem) + [journal.id])
            while !names.isEmpty {
                let group = names.prefix(Self.groupSize)
                names = names.dropFirst(Self.groupSize)
                try remove(group, ownFiles, journal, durability, &busy, &failure)
            }
        } catch  where error.isOutOfSpace && !error.isEffectVisible {
            // Nothing can be recorded, but files can be removed.
        }
        return busy
    }

    private func remove(
        _ names: some Sequence<POSIXPath>, _ ownFiles: OwnFiles, _ journal: TemporaryFileJournal,
        _ durability: Durability, _ busy: inout Set<POSIXPath>, _ failure: inout FileSystemError?
    ) throws(FileSystemError) {
        var trash: [TemporaryFileJournal.Name] = []
        // Only at the end: before the last flush a power cut could leave a tree whose name is recorded no more.
        defer { for name in trash { journal.giveBackIfFree(name, at: root) } }
        var pairs: [(name: POSIXPath, trash: POSIXPath)] = []
        for name in names where isWhollyOwn(name, ownFiles) {
            let new = try journal.takeName(POSIXPath.trashPrefix, in: "", at: root, isDurable: false)
            trash.append(new)
            pairs.append((name, new.path))
        }
        if durability == .full { try journal.synchronize(trash) }
        var renamed: [(name: POSIXPath, trash: POSIXPath)] = []
        try takingTurn(in: root, nil, isOwn: false) { () throws(FileSystemError) in
            for pair in pairs {
                do throws(FileSystemError) {
                    // A file may have replaced the tree since it was inspected; it is removed with the others.
                    guard try fileSystem.status(pair.name, at: root, followsSymbolicLinks: false).type == .directory
                    else { continue }
                    try fileSystem.rename(pair.name, at: root, to: pair.trash, at: root, .replacing)
                    renamed.append(pair)
                } catch {
                    // Otherwise removing its files one by one is tried next, and reports the problem.
                    guard error.errno == .resourceBusy else { continue }
                    busy.insert(pair.name)
                    failure = failure ?? error
                }
            }
        }
        guard !renamed.isEmpty else { return }
        flushed.removeAll()
        try synchronizeNames(root, nil, durability)
        for pair in renamed {
            do throws(FileSystemError) {
                // What has its name again is removed file by file next, which reports the problem.
                _ = try removeOrPutBack(pair.trash, as: pair.name, pair.name, at: root, ownFiles)
            } catch {
                failure = failure ?? error
            }
        }
        try synchronizeNames(root, nil, durability)
    }

    /// Whether a directory can be removed as a whole; false too if that cannot be determined.
    private func isWhollyOwn(_ name: POSIXPath, _ ownFiles: OwnFiles) -> Bool {
        do throws(FileSystemError) {
            return try ownFiles.isWhollyOwn(name, in: root)
        } catch {
            return false
        }
    }
}

extension POSIXFileSystem {
    /// Whether a directory below the root of a store, or a directory on its path, is the root of another store.
    ///
    /// - Complexity: O(*n*) in the number of entries of these directories.
    func isInOtherStore(_ directory: POSIXPath, below root: Descriptor) throws(FileSystemError) -> Bool {
        var directory = directory
        while !directory.isEmpty {
            let entries = try entries(ofDirectory: directory, at: root, resolution: StoreDirectory.resolution)
            if entries.contains(where: \.name.isStoreMarker) { return true }
            directory = directory.splitLast().parent
        }
        return false
    }
}

extension POSIXFileSystem {
    /// Whether an entry belongs to another user, so that it is not of this process's stores.
    package func isOfAnotherUser(
        _ name: POSIXPath, at directory: Descriptor
    ) throws(FileSystemError) -> Bool {
        try status(name, at: directory, followsSymbolicLinks: false).owner != effectiveUser
    }
}
