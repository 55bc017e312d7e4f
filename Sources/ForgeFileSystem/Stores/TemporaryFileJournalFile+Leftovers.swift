import SystemPackage

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
                try fileSystem.withDirectory(directory, at: root, resolution: StoreDirectory.resolution) {
                    (parent) throws(FileSystemError) in
                    try removeLeftovers(slot, in: parent, at: directory, below: root, &kept)
                }
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
