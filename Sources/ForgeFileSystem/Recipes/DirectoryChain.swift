public import SystemPackage

extension POSIXFileSystem {
    /// Creates a directory and every parent that is missing, each durable when the call returns.
    ///
    /// The names of the directories above are flushed even where they exist already: their creators may not have
    /// flushed them. That takes one flush per level; a store does it once, when it first writes. What may not be read
    /// above the directory is taken to be durable, since it is not this program's.
    ///
    /// - Parameters:
    ///   - path: The directory.
    ///   - permissions: The exact mode of what is created, whatever the umask and the set-group-ID bit of the parent.
    /// - Throws: ``FileSystemError``; `ENOTDIR` if a parent is not a directory, `EEXIST` if something else is at
    ///   `path`. Parents that were created stay.
    public func makeDirectories(
        _ path: POSIXPath, permissions: FilePermissions = .ownerReadWriteExecute
    ) throws(FileSystemError) {
        try makeDirectories(path, permissions) { (_) throws(FileSystemError) in }
    }

    /// Creates the directory of a store, mode 0700, and every parent that is missing, as
    /// ``makeDirectories(_:permissions:)`` does.
    ///
    /// - Throws: ``FileSystemError``; `EINVAL` with an ``InvalidKey`` if the directory, or a parent that is missing,
    ///   has a name that stores reserve: another store above it could take the directory for its own. Nothing was
    ///   created.
    package func makeStoreDirectories(_ path: POSIXPath) throws(FileSystemError) {
        try makeDirectories(path, .privateDirectory) { (path) throws(FileSystemError) in
            let name = path.splitLast().name
            guard name.isReservedWhenFolded else { return }
            let reason = InvalidKey(key: String(name), reason: .reserved)
            throw FileSystemError(.createDirectory, .invalidArgument, path: path, underlying: reason)
        }
    }

    private func makeDirectories(
        _ path: POSIXPath, _ permissions: FilePermissions, checking check: (POSIXPath) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        let created = try createDirectories(
            path, at: .workingDirectory, permissions: permissions, resolution: [], checking: check)
        for path in created { try synchronizeParent(of: path) }
        try synchronizeAncestors(of: created.first?.splitLast().parent ?? path)
    }

    /// Creates a directory and every parent that is missing, without making any of them durable.
    ///
    /// - Parameters:
    ///   - path: The directory.
    ///   - directory: Where a relative path starts.
    ///   - permissions: The exact mode of what is created.
    ///   - resolution: Limits on path resolution.
    ///   - check: Called with the path and with every parent that is missing before anything is created.
    /// - Returns: The directories that were created, the highest first.
    /// - Throws: What `check` throws, or ``FileSystemError``; parents that were created stay.
    @discardableResult
    package func createDirectories(
        _ path: POSIXPath, at directory: Descriptor, permissions: FilePermissions, resolution: PathResolution,
        checking check: (POSIXPath) throws(FileSystemError) -> Void = { (_) throws(FileSystemError) in }
    ) throws(FileSystemError) -> [POSIXPath] {
        // From the end backwards: what exists already is found with the first call.
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

    /// Whether the directory was created just now; false if there was one.
    private func createIfMissing(
        _ path: POSIXPath, at directory: Descriptor, _ permissions: FilePermissions, _ resolution: PathResolution
    ) throws(FileSystemError) -> Bool {
        guard !resolution.isEmpty else {
            do {
                try createDirectory(path, at: directory, exactly: permissions)
                return true
            } catch  where error.errno == .fileExists {
                guard try status(path, at: directory).type == .directory else { throw error }
                return false
            }
        }
        // mkdirat(2) takes no limits; the parent is resolved under them.
        let (parent, name) = path.splitLast()
        return try withParent(parent, at: directory, resolution: resolution) {
            (parent) throws(FileSystemError) -> Bool in
            do throws(FileSystemError) {
                try createDirectory(name, at: parent, exactly: permissions)
                return true
            } catch  where error.errno == .fileExists {
                let type = try status(name, at: parent, followsSymbolicLinks: false).type
                guard type == .directory else { throw error }
                return false
            }
        }
    }

    /// Creates a directory with this mode, whatever the umask.
    ///
    /// `mkdir(2)` can only narrow the rights of users, so no other user can enter before the mode is set. On Linux it
    /// also passes on the parent's set-group-ID bit, and ignores the one that is asked for.
    package func createDirectory(
        _ path: POSIXPath, at directory: Descriptor, exactly permissions: FilePermissions
    ) throws(FileSystemError) {
        try createDirectory(path, at: directory, permissions: permissions)
        let granted = try status(path, at: directory, followsSymbolicLinks: false).permissions
        guard granted != permissions else { return }
        do {
            try setPermissions(permissions, of: .path(path, at: directory, followsSymbolicLinks: false))
            // The mode that mkdir(2) gave must not return after a power cut.
            try withDirectory(path, at: directory) { (created) throws(FileSystemError) in
                try synchronize(created, .full)
            }
        } catch {
            // A directory that cannot be entered would fail every later call.
            do { try removeDirectory(path, at: directory) } catch _ {}
            throw error
        }
    }
}

// MARK: Durability

extension POSIXFileSystem {
    /// Makes the names in the directory above `path` durable.
    package func synchronizeParent(of path: POSIXPath) throws(FileSystemError) {
        try withParent(path.splitLast().parent, at: .workingDirectory, resolution: []) {
            (parent) throws(FileSystemError) in
            try naming(path) { () throws(FileSystemError) in try synchronize(parent, .full) }
        }
    }

    /// Makes the names on the way to an existing directory durable, as far as this process may read them.
    ///
    /// Both the directories that the path names and those that really stand above are flushed; they differ where the
    /// path leads over a symbolic link.
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

    /// Flushes the directories above one, and itself if it is included, up to one that is flushed already.
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

    /// Whether the directory was not yet flushed; it is now.
    private func synchronizeOnce(
        _ directory: Descriptor, _ path: POSIXPath, _ flushed: inout Set<DirectoryIdentity>
    ) throws(FileSystemError) -> Bool {
        let status = try status(of: .descriptor(directory))
        // The root directory is its own parent, so that the walk ends there at the latest.
        guard flushed.insert(DirectoryIdentity(status)).inserted else { return false }
        do {
            try naming(path) { () throws(FileSystemError) in try synchronize(directory, .full) }
        } catch  where error.errno.isRefusal {
            return true
        } catch  where error.errno == .readOnlyFileSystem || error.errno.isMissingFeature {
            return true  // Nothing can be pending there, or the file system cannot synchronise directories at all.
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

    private func withParent<Result>(
        _ parent: POSIXPath, at directory: Descriptor, resolution: PathResolution,
        _ body: (Descriptor) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        try withDirectory(parent.isEmpty ? "." : parent, at: directory, resolution: resolution, body)
    }
}
