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
    ///   belong to the store (``OwnFiles``), in which case nothing was removed.
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
                guard try ownFiles.removeTree(trash, at: parent) else {
                    // Another program has added an entry to the tree meanwhile.
                    try fileSystem.rename(trash, at: parent, to: name, at: parent, .replacing)
                    try synchronizeNames(parent, key.path, durability)
                    throw FileSystemError(.removeDirectory, .directoryNotEmpty, path: key.path)
                }
                // Before the name may be reused, or a power cut could leave the tree unrecorded.
                try synchronizeNames(parent, key.path, durability)
            }
        }
    }

    private func requireOwn(
        _ ownFiles: OwnFiles, _ name: POSIXPath, at parent: Descriptor, _ key: RelativeKey
    ) throws(FileSystemError) {
        let foreign = try fileSystem.withDirectory(name, at: parent, resolution: Self.resolution) {
            (directory) throws(FileSystemError) in try ownFiles.firstForeign(in: directory, prefix: key.path)
        }
        if let foreign { throw FileSystemError(.removeDirectory, .directoryNotEmpty, path: foreign) }
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
