public import SystemPackage

extension POSIXFileSystem {
    /// Creates a directory and every missing parent, each durable when the call returns.
    ///
    /// The names of existing parents are flushed too, because their creators may not have flushed them. That takes one
    /// flush per level; a store does it once, at its first write. Parents that cannot be read are assumed to be
    /// durable, because they belong to another program.
    ///
    /// - Parameters:
    ///   - path: The directory.
    ///   - permissions: The exact mode of new directories, regardless of the umask and the parent's set-group-ID bit.
    /// - Throws: ``FileSystemError``; `ENOTDIR` if a parent is not a directory, `EEXIST` if another file is at `path`.
    ///   Created parents are kept.
    public func makeDirectories(
        _ path: POSIXPath, permissions: FilePermissions = .ownerReadWriteExecute
    ) throws(FileSystemError) {
        try makeDirectories(path, permissions) { (_) throws(FileSystemError) in }
    }

    /// Creates the directory of a store, mode 0700, and every missing parent, as ``makeDirectories(_:permissions:)``
    /// does.
    ///
    /// - Parameters:
    ///   - path: The directory.
    ///   - isDurable: Whether the names are flushed.
    /// - Throws: ``FileSystemError``; `EINVAL` with an ``InvalidKey`` if the directory, or a missing parent, has a name
    ///   that stores reserve: another store above it could treat the directory as its own. Nothing was created.
    package func makeStoreDirectories(_ path: POSIXPath, isDurable: Bool = true) throws(FileSystemError) {
        try makeDirectories(path, .privateDirectory, isDurable: isDurable) { (path) throws(FileSystemError) in
            let name = path.splitLast().name
            guard name.isReservedWhenFolded else { return }
            let reason = InvalidKey(key: String(name), reason: .reserved)
            throw FileSystemError(.createDirectory, .invalidArgument, path: path, underlying: reason)
        }
    }

    private func makeDirectories(
        _ path: POSIXPath, _ permissions: FilePermissions, isDurable: Bool = true,
        checking check: (POSIXPath) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        let created = try createDirectories(
            path, at: .workingDirectory, permissions: permissions, resolution: [], checking: check)
        guard isDurable else { return }
        for path in created { try synchronizeParent(of: path) }
        try synchronizeAncestors(of: created.first?.splitLast().parent ?? path)
    }

    /// Creates a directory and every missing parent, without making any of them durable.
    ///
    /// - Parameters:
    ///   - path: The directory.
    ///   - directory: The start of a relative path.
    ///   - permissions: The exact mode of new directories.
    ///   - resolution: Limits on path resolution.
    ///   - check: Called with the path and with every missing parent before anything is created.
    /// - Returns: The created directories, the highest first.
    /// - Throws: The error of `check`, or ``FileSystemError``; created parents are kept.
    @discardableResult
    package func createDirectories(
        _ path: POSIXPath, at directory: Descriptor, permissions: FilePermissions, resolution: PathResolution,
        checking check: (POSIXPath) throws(FileSystemError) -> Void = { (_) throws(FileSystemError) in }
    ) throws(FileSystemError) -> [POSIXPath] {
        // From the end backwards, so that an existing path is found with the first call.
        var missing: [POSIXPath] = []
        var created: [POSIXPath] = []
        var current = path
        while true {
            try check(current)
            do {
                if try createIfMissing(current, at: directory, permissions, resolution) { created.append(current) }
                break
            } catch  where error.errno == .noSuchFileOrDirectory {
                let parent = current.splitLast().parent
                guard !parent.isEmpty, parent != current else { throw error }
                missing.append(current)
                current = parent
            }
        }
        for path in missing.reversed() {
            if try createIfMissing(path, at: directory, permissions, resolution) { created.append(path) }
        }
        return created
    }

    /// Creates the directory if it is missing; returns whether it did.
    private func createIfMissing(
        _ path: POSIXPath, at directory: Descriptor, _ permissions: FilePermissions, _ resolution: PathResolution
    ) throws(FileSystemError) -> Bool {
        guard !resolution.isEmpty else {
            do {
                try createDirectory(path, at: directory, exactly: permissions)
                return true
            } catch  where error.errno.isOfPresentDirectory {
                guard try status(path, at: directory).type == .directory else { throw error }
                return false
            }
        }
        // mkdirat(2) does not support such limits; only the parent is resolved under them.
        let (above, name) = path.splitLast()
        let parent = try openDirectory(above.isEmpty ? "." : above, at: directory, resolution: resolution)
        defer { discard(parent) }
        do throws(FileSystemError) {
            try createDirectory(name, at: parent, exactly: permissions)
            return true
        } catch  where error.errno.isOfPresentDirectory {
            let type = try status(name, at: parent, followsSymbolicLinks: false).type
            guard type == .directory else { throw error }
            return false
        }
    }

    /// Creates a directory with this mode, regardless of the umask.
    ///
    /// `mkdir(2)` can only restrict the permissions, so no other user can enter before the mode is set. On Linux it
    /// also inherits the parent's set-group-ID bit, and ignores the requested one.
    ///
    /// - Parameters:
    ///   - path: The directory.
    ///   - directory: The start of a relative path.
    ///   - permissions: The mode.
    ///   - inherited: The bits that it keeps besides if the system has set them.
    ///   - isDurable: Whether a mode that differs from that of `mkdir(2)` is flushed.
    /// - Throws: ``FileSystemError``; nothing was created.
    package func createDirectory(
        _ path: POSIXPath, at directory: Descriptor, exactly permissions: FilePermissions,
        keeping inherited: FilePermissions = [], isDurable: Bool = true
    ) throws(FileSystemError) {
        try createDirectory(path, at: directory, permissions: permissions)
        let granted = try status(path, at: directory, followsSymbolicLinks: false).permissions
        let permissions = permissions.union(granted.intersection(inherited))
        guard granted != permissions else { return }
        do {
            try setExactPermissions(permissions, of: path, at: directory)
            guard isDurable else { return }
            // Otherwise a power cut could restore the mode that mkdir(2) set.
            let created = try openDirectory(path, at: directory)
            defer { discard(created) }
            try synchronizeDirectory(created)
        } catch {
            // A directory that cannot be entered would make every later call fail.
            do { try removeDirectory(path, at: directory) } catch _ {}
            throw error
        }
    }
}

extension POSIXFileSystem {
    /// Sets the mode of a new directory. Without `/proc` and before Linux 6.6, only that of an open directory can be set
    /// without following a link.
    private func setExactPermissions(
        _ permissions: FilePermissions, of path: POSIXPath, at directory: Descriptor
    ) throws(FileSystemError) {
        do throws(FileSystemError) {
            try setPermissions(permissions, of: .path(path, at: directory, followsSymbolicLinks: false))
        } catch  where error.errno.isMissingFeature {
            let created = try open(path, at: directory, .readOnly, options: [.directory, .noFollow])
            try closing(created) { () throws(FileSystemError) in
                try setPermissions(permissions, of: .descriptor(created))
            }
        }
    }
}

// MARK: Durability

extension POSIXFileSystem {
    /// Makes the names in the parent directory of `path` durable.
    package func synchronizeParent(of path: POSIXPath) throws(FileSystemError) {
        let above = path.splitLast().parent
        let parent = try openDirectory(above.isEmpty ? "." : above)
        defer { discard(parent) }
        do throws(FileSystemError) { try synchronizeDirectory(parent) } catch { throw error.named(path) }
    }

    /// Makes the names on the path of an existing directory durable, as far as this process may read them.
    ///
    /// Both the directories that the path names and the actual parents are flushed; they differ where the path contains
    /// a symbolic link.
    private func synchronizeAncestors(of path: POSIXPath) throws(FileSystemError) {
        var flushed: Set<DirectoryIdentity> = []
        try synchronizeUpwards(from: path.isEmpty ? "." : path, &flushed, isIncluded: false)
        try synchronizeNames(leadingTo: path, &flushed)
    }

    /// Makes the name of a file and of all directories above it durable, as far as this process may read them.
    package func synchronizeNames(leadingTo path: POSIXPath) throws(FileSystemError) {
        var flushed: Set<DirectoryIdentity> = []
        try synchronizeNames(leadingTo: path, &flushed)
    }

    private func synchronizeNames(
        leadingTo path: POSIXPath, _ flushed: inout Set<DirectoryIdentity>
    ) throws(FileSystemError) {
        var current = path
        while !current.isEmpty, current != "/" {
            current = current.splitLast().parent
            try synchronizeUpwards(from: current.isEmpty ? "." : current, &flushed, isIncluded: true)
        }
    }

    /// Flushes the parents of a directory, and optionally itself, up to one that is already flushed.
    private func synchronizeUpwards(
        from path: POSIXPath, _ flushed: inout Set<DirectoryIdentity>, isIncluded: Bool
    ) throws(FileSystemError) {
        guard var current = try openIfAllowed(path, at: .workingDirectory) else { return }
        defer { discard(current) }
        if isIncluded {
            guard try synchronizeOnce(current, path, &flushed) else { return }
        } else {
            flushed.insert(DirectoryIdentity(try status(of: .descriptor(current))))
        }
        while let above = try openIfAllowed("..", at: current) {
            discard(current)
            current = above
            guard try synchronizeOnce(current, path, &flushed) else { return }
        }
    }

    /// Flushes a directory unless that was already done; returns whether it did.
    private func synchronizeOnce(
        _ directory: Descriptor, _ path: POSIXPath, _ flushed: inout Set<DirectoryIdentity>
    ) throws(FileSystemError) -> Bool {
        let status = try status(of: .descriptor(directory))
        // The root directory is its own parent, so the loop ends there at the latest.
        guard flushed.insert(DirectoryIdentity(status)).inserted else { return false }
        do throws(FileSystemError) {
            try synchronizeDirectory(directory)
        } catch  where error.errno.isRefusal || error.errno == .readOnlyFileSystem {
            return true  // Another program's, or nothing can be pending there.
        } catch {
            throw error.named(path)
        }
        return true
    }

    private func openIfAllowed(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> Descriptor? {
        do {
            return try open(path, at: directory, .readOnly, options: [.directory])
        } catch  where error.errno.isRefusal {
            return nil
        }
    }
}

extension Errno {
    /// Whether `mkdir(2)` may have found a directory: `EISDIR` is Darwin's error for the root of the file system.
    fileprivate var isOfPresentDirectory: Bool { self == .fileExists || self == .isDirectory }
}
