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
        let foreign = try fileSystem.withDirectory(name, at: parent, resolution: Self.resolution) {
            (directory) throws(FileSystemError) in try ownFiles.firstForeign(in: directory, prefix: key.path)
        }
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

/// The files in a directory tree that belong to a store: regular files and directories whose paths are valid keys.
///
/// All other files belong to other programs and are kept: names that are not valid keys, links, FIFOs, sockets, and
/// directories that are roots of other stores. Other hard links of a removed file keep its content.
struct OwnFiles {
    let fileSystem: any POSIXFileSystem
    /// The identifiers in the names of this store's temporary files, which may be removed with a tree.
    let temporaryIDs: [POSIXPath]
    /// The store in whose directories files are removed in turn; nil for trees that no path leads to any more.
    private let store: StoreDirectory?
    /// The device of the directory that contains the tree.
    private let device: UInt64

    init(
        _ fileSystem: any POSIXFileSystem, in directory: Descriptor, temporaryIDs: [POSIXPath] = [],
        takingTurnsOf store: StoreDirectory? = nil
    ) throws(FileSystemError) {
        self.fileSystem = fileSystem
        self.store = store
        self.temporaryIDs = temporaryIDs
        device = try fileSystem.status(of: .descriptor(directory)).device
    }

    /// The first entry below a directory that does not belong to the store; nil if there is none.
    func firstForeign(
        in directory: Descriptor, prefix: POSIXPath
    ) throws(FileSystemError) -> POSIXPath? {
        for entry in try fileSystem.entries(of: directory) {
            let path = prefix.appending(entry.name)
            switch try kind(of: entry, at: path, in: directory) {
            case .missing, .file, .temporary: continue
            case .foreign: return path
            case .directory:
                let found = try ifPresent { () throws(FileSystemError) in
                    try unlessUnreadable(entry.name, in: directory, path as POSIXPath?) { () throws(FileSystemError) in
                        try withDirectory(entry.name, at: directory) { (below) throws(FileSystemError) in
                            try isMountPoint(below, entry.name, in: directory)
                                ? path : try firstForeign(in: below, prefix: path)
                        }
                    }
                }
                if let found = found ?? nil { return found }
            }
        }
        return nil
    }

    /// Whether a directory and everything below it belong to the store, so that it can be removed as a whole.
    func isWhollyOwn(_ name: POSIXPath, in parent: Descriptor) throws(FileSystemError) -> Bool {
        try withDirectory(name, at: parent) { (directory) throws(FileSystemError) in
            guard try !isMountPoint(directory, name, in: parent) else { return false }
            return try firstForeign(in: directory, prefix: name) == nil
        }
    }

    /// Removes the store's files below a directory.
    ///
    /// - Parameters:
    ///   - directory: The open directory.
    ///   - prefix: Its path; nil for the root of the store.
    ///   - kept: Names in the directory that are kept.
    ///   - didFail: Called with the error of an entry that cannot be removed; returns to go on with the others.
    ///   - didStay: Called for each directory that is kept, the highest last.
    /// - Returns: Whether the directory is empty afterwards.
    /// - Throws: The error of the listing, or of a closure.
    func removeContents(
        of directory: Descriptor, prefix: POSIXPath?, except kept: Set<POSIXPath> = [],
        didFail: (FileSystemError) throws(FileSystemError) -> Void,
        didStay: (Descriptor, POSIXPath?) throws(FileSystemError) -> Void
    ) throws(FileSystemError) -> Bool {
        let entries = try fileSystem.entries(of: directory)
        if prefix != nil, entries.contains(where: { $0.name.isStoreMarker }) { return false }
        var isEmpty = true
        for entry in entries {
            guard !kept.contains(entry.name) else {
                isEmpty = false
                continue
            }
            let path = prefix?.appending(entry.name) ?? entry.name
            do throws(FileSystemError) {
                let isGone = try remove(entry, at: path, from: directory, prefix, didFail, didStay)
                if !isGone { isEmpty = false }
            } catch {
                var error = error
                error.path = error.path.map { $0 == entry.name ? path : $0 } ?? path
                try didFail(error)
                isEmpty = false
            }
        }
        if !isEmpty || prefix == nil { try didStay(directory, prefix) }
        return isEmpty
    }

    /// Removes an entry with the store's files below it, and returns whether it is gone.
    private func remove(
        _ entry: DirectoryEntry, at path: POSIXPath, from directory: Descriptor, _ prefix: POSIXPath?,
        _ didFail: (FileSystemError) throws(FileSystemError) -> Void,
        _ didStay: (Descriptor, POSIXPath?) throws(FileSystemError) -> Void
    ) throws(FileSystemError) -> Bool {
        switch try kind(of: entry, at: path, in: directory) {
        case .missing: return true
        case .foreign: return false
        case .file, .temporary:
            try ifPresent { () throws(FileSystemError) in
                try unlink(entry.name, from: directory, prefix)
            }
            return true
        case .directory:
            return try ifPresent { () throws(FileSystemError) -> Bool in
                let isEmpty = try unlessUnreadable(entry.name, in: directory, false) { () throws(FileSystemError) in
                    try withDirectory(entry.name, at: directory) { (below) throws(FileSystemError) in
                        guard try !isMountPoint(below, entry.name, in: directory) else { return false }
                        return try removeContents(of: below, prefix: path, didFail: didFail, didStay: didStay)
                    }
                }
                guard isEmpty else { return false }
                return try removeDirectory(entry.name, at: directory)
            } ?? true
        }
    }

    private func unlink(
        _ name: POSIXPath, from directory: Descriptor, _ path: POSIXPath?
    ) throws(FileSystemError) {
        guard let store else { return try fileSystem.unlink(name, at: directory) }
        try store.takingTurn(in: directory, path, isOwn: path != nil) { () throws(FileSystemError) in
            try fileSystem.unlink(name, at: directory)
        }
    }

    /// Removes a tree that was renamed for deletion; false if it contains another program's files, which are kept.
    func removeTree(_ name: POSIXPath, at parent: Descriptor) throws(FileSystemError) -> Bool {
        // A save that has the directory open may add its file during the removal.
        for _ in 0..<64 {
            let isForeign = try ifPresent { () throws(FileSystemError) in
                try withDirectory(name, at: parent) { (directory) throws(FileSystemError) -> Bool in
                    // Its own name is not a valid key; its entries still have their original names.
                    if try removeAllContents(of: directory, in: name) { return false }
                    return try firstForeign(in: directory, prefix: "x") != nil
                }
            }
            guard let isForeign else { return true }
            guard !isForeign else { return false }
            if try removeDirectory(name, at: parent) { return true }
        }
        return false
    }

    /// Removes the store's files below a tree that was renamed for deletion, and returns whether it is empty
    /// afterwards.
    private func removeAllContents(of tree: Descriptor, in name: POSIXPath) throws(FileSystemError) -> Bool {
        do throws(FileSystemError) {
            return try removeContents(
                of: tree, prefix: "x", didFail: { (error) throws(FileSystemError) in throw error },
                didStay: { (_, _) throws(FileSystemError) in })
        } catch {
            var error = error
            if let path = error.path, path.bytes.starts(with: "x/".utf8) {
                error.path = name.appending(POSIXPath(path.bytes.dropFirst(2)))
            }
            throw error
        }
    }

    // MARK: One entry

    private enum Kind {
        case missing, foreign, file, directory, temporary
    }

    private func kind(
        of entry: DirectoryEntry, at path: POSIXPath, in directory: Descriptor
    ) throws(FileSystemError) -> Kind {
        let isTemporary = entry.name.temporaryID.map(temporaryIDs.contains) ?? false
        guard isTemporary || path.isKey else {
            // A file that has disappeared since was the temporary file of a save.
            guard entry.name.isLeftover, entry.type == .regular else { return .foreign }
            return try exists(entry.name, in: directory) ? .foreign : .missing
        }
        guard entry.type != .directory else { return isTemporary ? .foreign : .directory }
        guard
            let status = try ifPresent({ () throws(FileSystemError) in
                try fileSystem.status(entry.name, at: directory, followsSymbolicLinks: false)
            })
        else { return .missing }
        guard status.type == .regular else { return .foreign }
        return isTemporary ? .temporary : .file
    }

    /// Whether a directory is on another device, or another directory is mounted there (`mount --bind`).
    private func isMountPoint(
        _ directory: Descriptor, _ name: POSIXPath, in parent: Descriptor
    ) throws(FileSystemError) -> Bool {
        guard try fileSystem.status(of: .descriptor(directory)).device == device else { return true }
        return (fileSystem as? SystemFileSystem)?.isMountPoint(name, at: parent) ?? false
    }

    /// Calls `body` with a directory; returns `foreign` if it belongs to another user and cannot be read.
    private func unlessUnreadable<Result>(
        _ name: POSIXPath, in parent: Descriptor, _ foreign: Result, _ body: () throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        do throws(FileSystemError) {
            return try body()
        } catch  where error.errno.isRefusal {
            guard try fileSystem.isOfAnotherUser(name, at: parent) else { throw error }
            return foreign
        }
    }

    private func exists(_ name: POSIXPath, in directory: Descriptor) throws(FileSystemError) -> Bool {
        try fileSystem.exists(name, at: directory, followsSymbolicLinks: false)
    }

    private func withDirectory<Result>(
        _ name: POSIXPath, at parent: Descriptor, _ body: (Descriptor) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        try fileSystem.withDirectory(name, at: parent, resolution: StoreDirectory.resolution, body)
    }

    /// False if an entry was added to the directory meanwhile.
    private func removeDirectory(_ name: POSIXPath, at parent: Descriptor) throws(FileSystemError) -> Bool {
        do {
            try fileSystem.removeDirectory(name, at: parent)
            return true
        } catch  where error.errno == .directoryNotEmpty || error.errno == .fileExists {
            return false
        }
    }

    @discardableResult
    private func ifPresent<Result>(
        _ body: () throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result? {
        do {
            return try body()
        } catch  where error.errno == .noSuchFileOrDirectory {
            return nil
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
            let isRoot = try withDirectory(directory, at: root, resolution: StoreDirectory.resolution) {
                (descriptor) throws(FileSystemError) in
                try entries(of: descriptor).contains { $0.name.isStoreMarker }
            }
            if isRoot { return true }
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
