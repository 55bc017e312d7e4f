package import SystemPackage

/// One file or directory of a store.
package struct StoreEntry: Sendable {
    /// The path relative to the root; its bytes need not be a valid key if somebody else put the file there.
    package var path: POSIXPath
    package var type: FileType
    package var inode: UInt64
}

extension StoreDirectory {
    /// What a directory of the store holds, nil being the root; the store's own files are left out.
    ///
    /// Links are told of but never followed. What disappears meanwhile is left out.
    package func list(_ key: RelativeKey?, isRecursive: Bool) throws(FileSystemError) -> [StoreEntry] {
        var found: [StoreEntry] = []
        try forEachEntry(of: key, isRecursive: isRecursive) { (entry, _, _) throws(FileSystemError) in
            found.append(entry)
        }
        return found
    }

    /// Calls `body` for what a directory of the store holds, with the directory it is in and its name there.
    package func forEachEntry(
        of key: RelativeKey?, isRecursive: Bool,
        _ body: (StoreEntry, _ parent: Descriptor, _ name: POSIXPath) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        try withDirectory(key) { (directory) throws(FileSystemError) in
            try visit(directory, prefix: key?.path, depth: 0, isRecursive: isRecursive, body)
        }
    }

    private func visit(
        _ directory: Descriptor, prefix: POSIXPath?, depth: Int, isRecursive: Bool,
        _ body: (StoreEntry, _ parent: Descriptor, _ name: POSIXPath) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        for entry in try fileSystem.entries(of: directory) where !entry.name.isReservedName {
            let path = prefix?.appending(entry.name) ?? entry.name
            try body(StoreEntry(path: path, type: entry.type, inode: entry.inode), directory, entry.name)
            // No key leads deeper, so nothing of the store's own can be there.
            guard isRecursive, entry.type == .directory, depth < RelativeKey.maximumDepth else { continue }
            let below: Descriptor
            do throws(FileSystemError) {
                below = try fileSystem.open(
                    entry.name, at: directory, .readOnly, options: [.directory], permissions: [],
                    resolution: Self.resolution)
            } catch  where error.errno.isDisappearance {
                continue
            }
            defer { fileSystem.discard(below) }
            try visit(below, prefix: path, depth: depth + 1, isRecursive: true, body)
        }
    }

    /// Removes a key's directory and all it holds: it vanishes at once, by a durable rename, and is deleted after that.
    package func removeTree(_ key: RelativeKey, durability: Durability = .full) throws(FileSystemError) {
        try withParent(of: key, creating: false) { (parent, name) throws(FileSystemError) in
            guard try fileSystem.status(name, at: parent, followsSymbolicLinks: false).type == .directory else {
                throw FileSystemError(.removeDirectory, .notDirectory, path: key.path)
            }
            let trash = try discard(name, at: parent)
            unsettle()
            try synchronizeNames(parent, key, durability)
            try removeTrash(trash, at: parent)
        }
    }

    /// Removes everything in the store but the lock and what others are just writing.
    ///
    /// Not atomic: if it throws, part of the files is gone.
    package func removeAll(durability: Durability = .full) throws(FileSystemError) {
        try withDirectory(nil) { (root) throws(FileSystemError) in
            var trash: [POSIXPath] = []
            for entry in try fileSystem.entries(of: root) where !entry.name.isReservedName {
                do throws(FileSystemError) {
                    if entry.type == .directory {
                        trash.append(try discard(entry.name, at: root))
                    } else {
                        try fileSystem.unlink(entry.name, at: root)
                    }
                } catch  where error.errno == .noSuchFileOrDirectory {
                    continue
                }
            }
            unsettle()
            try synchronizeNames(root, nil, durability)
            for name in trash { try removeTrash(name, at: root) }
        }
    }

    /// Takes a name away by renaming what stands there; it has a single owner from then on, who deletes it.
    private func discard(_ name: POSIXPath, at parent: Descriptor) throws(FileSystemError) -> POSIXPath {
        let trash = POSIXPath.reserved(POSIXPath.trashPrefix, using: fileSystem.randomBits)
        try fileSystem.rename(name, at: parent, to: trash, at: parent, .replacing)
        return trash
    }

    /// Deletes what was discarded, together with what a save that had the directory open still puts there.
    private func removeTrash(_ name: POSIXPath, at parent: Descriptor) throws(FileSystemError) {
        var attempts = 0
        while true {
            do {
                return try fileSystem.removeEntry(name, at: parent)
            } catch  where error.errno == .directoryNotEmpty || error.errno == .fileExists {
                attempts += 1
                guard attempts < 64 else { throw error }
            }
        }
    }
}
