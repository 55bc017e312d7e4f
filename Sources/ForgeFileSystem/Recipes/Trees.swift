import SystemPackage

extension POSIXFileSystem {
    /// Copies a directory tree to a new name; links are copied as links, never followed.
    ///
    /// Every file of the copy is new: hard links become separate files, holes become zeros. Permissions are copied,
    /// regardless of the umask, without the set-user-ID and set-group-ID bits: the copy belongs to the caller, whose
    /// rights they would grant. Owners, times, locks, access control lists and extended attributes are not copied.
    /// Nothing is synchronised. Not atomic: if it throws, part of the copy may exist. At most seven descriptors are
    /// open at once, however deep the tree is.
    ///
    /// - Parameters:
    ///   - path: The directory.
    ///   - directory: The start of a relative `path`.
    ///   - newPath: The path of the copy; its parent must exist.
    ///   - newDirectory: The start of a relative `newPath`.
    /// - Throws: ``FileSystemError``: `ENOTDIR` if `path` is not a directory, `EEXIST` if `newPath` exists, `EINVAL` if
    ///   it lies below `path`, `ENOTSUP` for a FIFO, socket or device. Nothing was created in the first three cases.
    /// - Complexity: O(*n*) in the bytes and names copied.
    public func copyTree(
        _ path: POSIXPath, at directory: Descriptor = .workingDirectory, to newPath: POSIXPath,
        at newDirectory: Descriptor = .workingDirectory
    ) throws(FileSystemError) {
        let (above, name) = newPath.splitLast()
        let source = try openDirectory(path, at: directory)
        defer { discard(source) }
        let parent = try openDirectory(above.isEmpty ? "." : above, at: newDirectory)
        defer { discard(parent) }
        try requireOutside(source, parent, path, newPath)
        try createDirectory(name, at: parent, permissions: .ownerReadWriteExecute)
        let copy = try openSubdirectory(name, at: parent)
        try closing(copy) { () throws(FileSystemError) in try copyContents(of: source, to: copy) }
    }

    /// Refuses to copy a directory into its own tree, which would not end.
    private func requireOutside(
        _ source: Descriptor, _ parent: Descriptor, _ path: POSIXPath, _ newPath: POSIXPath
    ) throws(FileSystemError) {
        let forbidden = try status(of: .descriptor(source))
        var current = try openSubdirectory(".", at: parent)
        defer { discard(current) }
        var status = try status(of: .descriptor(current))
        while true {
            guard (status.inode, status.device) != (forbidden.inode, forbidden.device) else {
                var error = FileSystemError(.createDirectory, .invalidArgument, path: path)
                error.destination = newPath
                throw error
            }
            let above = try open("..", at: current, .readOnly, options: [.directory])
            discard(current)
            current = above
            let next = try self.status(of: .descriptor(above))
            // The root directory is its own parent.
            guard (next.inode, next.device) != (status.inode, status.device) else { return }
            status = next
        }
    }

    /// Copies level by level; each directory is reopened by its path below the two roots.
    private func copyContents(of source: Descriptor, to copy: Descriptor) throws(FileSystemError) {
        var directories: [POSIXPath] = ["."]
        var position = 0
        while position < directories.count {
            let path = directories[position]
            position += 1
            let from = try openDirectory(path, at: source, resolution: .insideTree)
            defer { discard(from) }
            let into = try openDirectory(path, at: copy, resolution: .insideTree)
            defer { discard(into) }
            for entry in try entries(of: from) {
                try copyEntry(entry, from, into)
                if entry.type == .directory { directories.append(path.appending(entry.name)) }
            }
        }
        // Only after all entries are copied: a directory may forbid even its owner to write.
        for path in directories.reversed() {
            let permissions = try withDirectory(path, at: source, resolution: .insideTree) {
                (from) throws(FileSystemError) in try status(of: .descriptor(from)).permissions.withoutSetID
            }
            let into = try openDirectory(path, at: copy, resolution: .insideTree)
            defer { discard(into) }
            try setPermissions(permissions, of: .descriptor(into))
        }
    }

    private func copyEntry(
        _ entry: DirectoryEntry, _ source: Descriptor, _ copy: Descriptor
    ) throws(FileSystemError) {
        switch entry.type {
        case .directory: try createDirectory(entry.name, at: copy, permissions: .ownerReadWriteExecute)
        case .symbolicLink:
            try createSymbolicLink(entry.name, at: copy, to: readSymbolicLink(entry.name, at: source))
        case .regular: try copyFile(entry.name, source, copy)
        default: throw FileSystemError(.createNode, .notSupported, path: entry.name)
        }
    }

    private func copyFile(
        _ name: POSIXPath, _ source: Descriptor, _ copy: Descriptor
    ) throws(FileSystemError) {
        let from = try open(name, at: source, .readOnly, options: [.noFollow, .nonBlocking])
        defer { discard(from) }
        let into = try open(name, at: copy, .writeOnly, options: [.create, .exclusiveCreate, .noFollow])
        try closing(into) { () throws(FileSystemError) in
            let permissions = try status(of: .descriptor(from)).permissions.withoutSetID
            var offset: Int64 = 0
            while true {
                let bytes = try readBytes(of: from, at: offset, count: 1 << 17)
                guard !bytes.isEmpty else { break }
                try writeBytes(bytes, to: into, at: offset)
                offset += Int64(bytes.count)
            }
            try setPermissions(permissions, of: .descriptor(into))
        }
    }
}

extension PathResolution {
    /// A directory in a listing may have become a link since.
    fileprivate static let insideTree: PathResolution = [.beneath, .noSymbolicLinks]
}

extension POSIXFileSystem {
    /// Removes a directory and everything below it; links are removed, never followed.
    ///
    /// Not atomic: if it throws, part of the tree is removed. At most two descriptors are open at once, however deep
    /// and wide the tree is. Entries that another process adds meanwhile are removed too, or make the call fail with
    /// `ENOTEMPTY`.
    ///
    /// - Throws: ``FileSystemError``; `EBUSY` for the root and `EINVAL` for a path that ends in `.` or `..`, before
    ///   anything is removed.
    public func removeTree(
        _ path: POSIXPath, at directory: Descriptor = .workingDirectory
    ) throws(FileSystemError) {
        let (parent, name) = path.splitLast()
        // rmdir(2) refuses these, but only after everything below would be gone.
        guard !name.isEmpty || path.isEmpty else { throw FileSystemError(.removeDirectory, .resourceBusy, path: path) }
        guard name != ".", name != ".." else { throw FileSystemError(.removeDirectory, .invalidArgument, path: path) }
        let above = try openDirectory(parent.isEmpty ? "." : parent, at: directory)
        defer { discard(above) }
        do throws(FileSystemError) { try removeEntry(name, at: above) } catch { throw error.named(path) }
    }

    /// Removes one entry of an open directory, with its whole tree.
    package func removeEntry(_ name: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        guard try status(name, at: directory, followsSymbolicLinks: false).type == .directory else {
            return try unlink(name, at: directory)
        }
        try removeContents(of: name, at: directory)
        try removeDirectory(name, at: directory)
    }

    /// Empties a directory, descending and ascending with one descriptor at a time.
    ///
    /// It ascends through `..`, which is trusted only if it leads to the expected parent.
    package func removeContents(of name: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        var current = try openSubdirectory(name, at: directory)
        do throws(FileSystemError) {
            var levels: [Level] = [try unlinkFiles(of: current, name: name)]
            while let level = levels.last {
                if let child = level.pending.last {
                    levels[levels.count - 1].pending.removeLast()
                    try move(&current, to: openSubdirectory(child, at: current))
                    levels.append(try self.unlinkFiles(of: current, name: child))
                    continue
                }
                levels.removeLast()
                guard let above = levels.last else { break }
                try move(&current, to: openSubdirectory("..", at: current))
                guard try above.isDirectory(status(of: .descriptor(current))) else {
                    throw FileSystemError(.removeDirectory, .resourceBusy, path: level.name)
                }
                try removeDirectory(level.name, at: current)
            }
        } catch {
            do { try close(current) } catch _ {}
            throw error
        }
        try close(current)
    }

    /// Closes the old descriptor only after replacing it, so that each is closed exactly once even on failure.
    private func move(_ current: inout Descriptor, to next: Descriptor) throws(FileSystemError) {
        let previous = current
        current = next
        try close(previous)
    }

    private func openSubdirectory(_ name: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> Descriptor {
        try open(name, at: directory, .readOnly, options: [.directory, .noFollow])
    }

    /// Removes all entries of an open directory except directories; returns the level with those.
    private func unlinkFiles(of directory: Descriptor, name: POSIXPath) throws(FileSystemError) -> Level {
        let status = try status(of: .descriptor(directory))
        var pending: [POSIXPath] = []
        for entry in try entries(of: directory) {
            guard entry.type != .directory else {
                pending.append(entry.name)
                continue
            }
            do {
                try unlink(entry.name, at: directory)
            } catch  where error.errno == .noSuchFileOrDirectory {
                continue  // Another process removed it first.
            }
        }
        return Level(name: name, inode: status.inode, device: status.device, pending: pending)
    }
}

private struct Level {
    var name: POSIXPath
    var inode: UInt64
    var device: UInt64
    var pending: [POSIXPath]

    func isDirectory(_ status: FileStatus) -> Bool { status.inode == inode && status.device == device }
}
