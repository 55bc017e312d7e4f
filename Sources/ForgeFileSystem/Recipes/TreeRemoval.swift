import SystemPackage

extension POSIXFileSystem {
    /// Removes a directory and everything below it; links are removed, never followed.
    ///
    /// Not atomic: if it throws, part of the tree is removed. At most two descriptors are open at once, however deep
    /// and wide the tree is. Entries that another process adds meanwhile are removed too, or make the call fail with
    /// `ENOTEMPTY`.
    public func removeTree(
        _ path: POSIXPath, at directory: Descriptor = .workingDirectory
    ) throws(FileSystemError) {
        let (parent, name) = path.splitLast()
        try withDirectory(parent.isEmpty ? "." : parent, at: directory) { (parent) throws(FileSystemError) in
            try withPathInErrors(path) { () throws(FileSystemError) in try removeEntry(name, at: parent) }
        }
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
        var current = try openForWalk(name, at: directory)
        do throws(FileSystemError) {
            var levels: [Level] = [try level(of: current, name: name)]
            while let level = levels.last {
                if let child = level.pending.last {
                    levels[levels.count - 1].pending.removeLast()
                    try move(&current, to: openForWalk(child, at: current))
                    levels.append(try self.level(of: current, name: child))
                    continue
                }
                levels.removeLast()
                guard let above = levels.last else { break }
                try move(&current, to: openForWalk("..", at: current))
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

    private func openForWalk(_ name: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> Descriptor {
        try open(name, at: directory, .readOnly, options: [.directory, .noFollow])
    }

    /// Removes all entries of an open directory except directories, and returns those.
    private func level(of directory: Descriptor, name: POSIXPath) throws(FileSystemError) -> Level {
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
