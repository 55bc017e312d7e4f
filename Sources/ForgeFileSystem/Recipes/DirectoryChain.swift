public import SystemPackage

extension POSIXFileSystem {
    /// Creates a directory and every parent that is missing, each durable when the call returns.
    ///
    /// - Parameters:
    ///   - path: The directory.
    ///   - permissions: The mode of what is created, less the umask.
    /// - Throws: ``FileSystemError``; `ENOTDIR` if something else stands in the way, `EEXIST` if it stands at `path`.
    ///   Parents that were created stay.
    public func makeDirectories(
        _ path: POSIXPath, permissions: FilePermissions = .ownerReadWriteExecute
    ) throws(FileSystemError) {
        try makeDirectories(path, at: .workingDirectory, permissions: permissions, resolution: [])
    }

    /// The same from an open directory, with a limit on the walk, and durable only if asked for.
    package func makeDirectories(
        _ path: POSIXPath, at directory: Descriptor, permissions: FilePermissions, resolution: PathResolution,
        durability: Durability = .full
    ) throws(FileSystemError) {
        // From the end backwards: what exists already is found with the first call.
        var missing: [POSIXPath] = []
        var current = path
        while true {
            do {
                var existing = current
                let isNew = try createIfParentExists(
                    current, at: directory, permissions: permissions, resolution: resolution)
                guard durability == .full else { break }
                if isNew {
                    try synchronizeParent(of: current, at: directory, resolution: resolution)
                    existing = current.splitLast().parent
                }
                // Whoever created what exists may not have come to synchronise it: it may be doing so, may have failed
                // or may have been killed. What is above was synchronised before anything was created in it.
                if !existing.splitLast().name.isEmpty {
                    try synchronizeParentIfAllowed(of: existing, at: directory, resolution: resolution)
                }
                break
            } catch  where error.errno == .noSuchFileOrDirectory {
                let parent = current.splitLast().parent
                guard !parent.isEmpty, parent != current else { throw error }
                missing.append(current)
                current = parent
            }
        }
        for path in missing.reversed() {
            _ = try createIfParentExists(path, at: directory, permissions: permissions, resolution: resolution)
            guard durability == .full else { continue }
            try synchronizeParent(of: path, at: directory, resolution: resolution)
        }
    }

    /// Whether the directory was created just now; false if there was one.
    private func createIfParentExists(
        _ path: POSIXPath, at directory: Descriptor, permissions: FilePermissions, resolution: PathResolution
    ) throws(FileSystemError) -> Bool {
        do {
            guard !resolution.isEmpty else {
                try createDirectory(path, at: directory, permissions: permissions)
                return true
            }
            // mkdirat(2) takes no limits; walk to the parent under them.
            let (parent, name) = path.splitLast()
            try withParent(parent, at: directory, resolution: resolution) { (parent) throws(FileSystemError) in
                try createDirectory(name, at: parent, permissions: permissions)
            }
            return true
        } catch  where error.errno == .fileExists {
            let isDirectory: Bool
            if resolution.isEmpty {
                isDirectory = try status(path, at: directory).type == .directory
            } else {
                isDirectory = try withParent(path.splitLast().parent, at: directory, resolution: resolution) {
                    (parent) throws(FileSystemError) in
                    try status(path.splitLast().name, at: parent, followsSymbolicLinks: false).type == .directory
                }
            }
            guard isDirectory else { throw error }
            return false
        }
    }

    /// Makes the names in the directory above `path` durable.
    package func synchronizeParent(
        of path: POSIXPath, at directory: Descriptor = .workingDirectory, resolution: PathResolution = []
    ) throws(FileSystemError) {
        try withParent(path.splitLast().parent, at: directory, resolution: resolution) {
            (parent) throws(FileSystemError) in
            try naming(path) { () throws(FileSystemError) in try synchronize(parent, .full) }
        }
    }

    /// The same, but a parent that this process may not read is left alone: it has not created anything there.
    package func synchronizeParentIfAllowed(
        of path: POSIXPath, at directory: Descriptor = .workingDirectory, resolution: PathResolution = []
    ) throws(FileSystemError) {
        do {
            try synchronizeParent(of: path, at: directory, resolution: resolution)
        } catch  where error.errno == .permissionDenied || error.errno == .notPermitted {
            return
        } catch  where error.errno == .readOnlyFileSystem || error.errno.isMissingFeature {
            return  // Nothing can be pending there, or the file system cannot synchronise directories at all.
        }
    }

    private func withParent<Result>(
        _ parent: POSIXPath, at directory: Descriptor, resolution: PathResolution,
        _ body: (Descriptor) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        try withDirectory(parent.isEmpty ? "." : parent, at: directory, resolution: resolution, body)
    }
}
