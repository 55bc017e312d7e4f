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
        try withDirectory(key) { (directory) throws(FileSystemError) in
            try list(directory, prefix: key?.path, depth: 0, isRecursive: isRecursive, into: &found)
        }
        return found
    }

    private func list(
        _ directory: Descriptor, prefix: POSIXPath?, depth: Int, isRecursive: Bool, into found: inout [StoreEntry]
    ) throws(FileSystemError) {
        for entry in try fileSystem.entries(of: directory) where !entry.name.isReservedName {
            let path = prefix?.appending(entry.name) ?? entry.name
            found.append(StoreEntry(path: path, type: entry.type, inode: entry.inode))
            // No key leads deeper, so nothing of the store's own can be there.
            guard isRecursive, entry.type == .directory, depth < RelativeKey.maximumDepth else { continue }
            do throws(FileSystemError) {
                try fileSystem.withDirectory(entry.name, at: directory, resolution: [.beneath, .noSymbolicLinks]) {
                    (below) throws(FileSystemError) in
                    try list(below, prefix: path, depth: depth + 1, isRecursive: true, into: &found)
                }
            } catch  where error.errno == .noSuchFileOrDirectory {
                continue
            }
        }
    }

    /// Removes a key's directory and all it holds: it vanishes at once, by a durable rename, and is deleted after that.
    package func removeTree(_ key: RelativeKey) throws(FileSystemError) {
        try withParent(of: key, creating: false) { (parent, name) throws(FileSystemError) in
            guard try fileSystem.status(name, at: parent, followsSymbolicLinks: false).type == .directory else {
                throw FileSystemError(.removeDirectory, .notDirectory, path: key.path)
            }
            let trash = POSIXPath.reserved(POSIXPath.trashPrefix, using: fileSystem.randomBits)
            try fileSystem.rename(name, at: parent, to: trash, at: parent, .replacing)
            try synchronizeNames(parent, key)
            try fileSystem.removeEntry(trash, at: parent)
        }
    }

    /// Removes everything in the store but the lock. Not atomic: if it throws, part of the files is gone.
    package func removeAll() throws(FileSystemError) {
        try withDirectory(nil) { (root) throws(FileSystemError) in
            for entry in try fileSystem.entries(of: root) where entry.name != .lockName {
                do throws(FileSystemError) {
                    try fileSystem.removeEntry(entry.name, at: root)
                } catch  where error.errno == .noSuchFileOrDirectory {
                    continue
                }
            }
            try synchronizeNames(root, nil)
        }
    }
}
