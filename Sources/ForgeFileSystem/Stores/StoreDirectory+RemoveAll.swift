import SystemPackage

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
                guard try !ownFiles.removeTree(pair.trash, at: root) else { continue }
                // Another program has added an entry to the tree meanwhile.
                try fileSystem.rename(pair.trash, at: root, to: pair.name, at: root, .replacing)
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
