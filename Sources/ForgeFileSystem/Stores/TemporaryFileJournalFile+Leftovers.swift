import SystemPackage

/// The removal of the temporary files and the trash of an owner that has ended.
extension TemporaryFileJournalFile {
    /// Removes the files and trash of all slots, whose owner has ended.
    ///
    /// Files that may not be removed stay, and so do files in other stores and files with another name; that does not
    /// prevent writes to the store.
    ///
    /// - Returns: The slots whose files stay.
    func removeLeftovers(_ directories: [POSIXPath?], at root: Descriptor) throws(FileSystemError) -> Set<Int> {
        var kept: Set<Int> = []
        for (slot, directory) in directories.enumerated() {
            guard let directory else { continue }
            do throws(FileSystemError) {
                guard !directory.isEmpty else {
                    try removeLeftovers(slot, in: root, at: directory, below: root, &kept)
                    continue
                }
                try fileSystem.withDirectory(directory, at: root, resolution: StoreDirectory.resolution) {
                    (parent) throws(FileSystemError) in
                    try removeLeftovers(slot, in: parent, at: directory, below: root, &kept)
                }
            } catch  where error.errno.isRefusal || error.errno.isDisappearance || error.errno.isUnusablePath {
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
            // The owner may not have flushed the rename to this name: after a power cut part of the tree would be back.
            do throws(FileSystemError) {
                try fileSystem.synchronize(directory, .full)
            } catch  where error.errno.isMissingFeature {
                // The file system cannot synchronise directories at all.
            }
            let files = try OwnFiles(fileSystem, in: directory, temporaryIDs: [id])
            guard try files.removeTree(trash, at: directory) else { return }
        }
        kept.remove(slot)
    }

    /// Whether this is a regular file without another name, or with that of a key in the same directory: where there is
    /// no exclusive rename, a file that must not replace another gets its key by a link.
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
    /// Whether a path leads out of the store, or the file system has no such names: the record comes from another one.
    fileprivate var isUnusablePath: Bool {
        self == .improperLink || self == .invalidArgument || self == .fileNameTooLong
    }
}
