import SystemPackage

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
                    try unlessUnreadable(entry.name, in: directory, path) { () throws(FileSystemError) -> POSIXPath? in
                        let below = try open(entry.name, at: directory)
                        defer { fileSystem.discard(below) }
                        return try isMountPoint(below, entry.name, in: directory)
                            ? path : try firstForeign(in: below, prefix: path)
                    }
                }
                if let found = found ?? nil { return found }
            }
        }
        return nil
    }

    /// Whether a directory and everything below it belong to the store, so that it can be removed as a whole.
    func isWhollyOwn(_ name: POSIXPath, in parent: Descriptor) throws(FileSystemError) -> Bool {
        let directory = try open(name, at: parent)
        defer { fileSystem.discard(directory) }
        guard try !isMountPoint(directory, name, in: parent) else { return false }
        return try firstForeign(in: directory, prefix: name) == nil
    }

    /// Removes the store's files below a directory.
    ///
    /// - Parameters:
    ///   - directory: The open directory.
    ///   - prefix: Its path; nil for the root of the store.
    ///   - kept: Names in the directory that are kept.
    ///   - didFail: Called with the error of an entry that cannot be removed; returns to go on with the others.
    ///   - didStay: Called for the root, and for each directory that is kept although its files were removed, the highest
    ///     last; not for the roots of other stores.
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
                let isEmpty = try unlessUnreadable(entry.name, in: directory, false) {
                    () throws(FileSystemError) -> Bool in
                    let below = try open(entry.name, at: directory)
                    defer { fileSystem.discard(below) }
                    guard try !isMountPoint(below, entry.name, in: directory) else { return false }
                    return try removeContents(of: below, prefix: path, didFail: didFail, didStay: didStay)
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

    /// Removes a tree that was renamed for deletion; false if it contains another program's files, which are kept, or if
    /// files were added during each of 64 attempts.
    func removeTree(_ name: POSIXPath, at parent: Descriptor) throws(FileSystemError) -> Bool {
        // A save that has the directory open may add its file during the removal.
        for _ in 0..<64 {
            let isForeign = try ifPresent { () throws(FileSystemError) -> Bool in
                let directory = try open(name, at: parent)
                defer { fileSystem.discard(directory) }
                guard try !isMountPoint(directory, name, in: parent) else { return true }
                // Its own name is not a valid key; its entries still have their original names.
                if try removeAllContents(of: directory, in: name) { return false }
                return try firstForeign(in: directory, prefix: "x") != nil
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

    private func open(_ name: POSIXPath, at parent: Descriptor) throws(FileSystemError) -> Descriptor {
        try fileSystem.openDirectory(name, at: parent, resolution: StoreDirectory.resolution)
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
