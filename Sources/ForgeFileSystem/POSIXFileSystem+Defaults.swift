public import SystemPackage

/// The same calls with default arguments.
extension POSIXFileSystem {
    /// Opens a file or directory; see the requirement of the same name.
    @inlinable public func open(
        _ path: POSIXPath, at directory: Descriptor = .workingDirectory, _ mode: FileDescriptor.AccessMode = .readOnly,
        options: FileDescriptor.OpenOptions = [], permissions: FilePermissions = [.ownerReadWrite]
    ) throws(FileSystemError) -> Descriptor {
        try open(path, at: directory, mode, options: options, permissions: permissions, resolution: [])
    }

    /// Creates a directory that only its owner may enter, unless `permissions` is given.
    @inlinable public func createDirectory(
        _ path: POSIXPath, permissions: FilePermissions = [.ownerReadWriteExecute]
    ) throws(FileSystemError) {
        try createDirectory(path, at: .workingDirectory, permissions: permissions)
    }

    /// Renames, replacing an existing target unless `mode` is given.
    @inlinable public func rename(
        _ path: POSIXPath, to newPath: POSIXPath, _ mode: RenameMode = .replacing
    ) throws(FileSystemError) {
        try rename(path, at: .workingDirectory, to: newPath, at: .workingDirectory, mode)
    }

    /// Adds a hard link to a file.
    @inlinable public func link(_ path: POSIXPath, to newPath: POSIXPath) throws(FileSystemError) {
        try link(path, at: .workingDirectory, to: newPath, at: .workingDirectory)
    }

    /// Creates a symbolic link.
    @inlinable public func createSymbolicLink(_ path: POSIXPath, to target: POSIXPath) throws(FileSystemError) {
        try createSymbolicLink(path, at: .workingDirectory, to: target)
    }

    /// The target of a symbolic link.
    @inlinable public func readSymbolicLink(_ path: POSIXPath) throws(FileSystemError) -> POSIXPath {
        try readSymbolicLink(path, at: .workingDirectory)
    }

    /// Removes the name of a file that is not a directory.
    @inlinable public func unlink(_ path: POSIXPath) throws(FileSystemError) {
        try unlink(path, at: .workingDirectory)
    }

    /// Removes an empty directory.
    @inlinable public func removeDirectory(_ path: POSIXPath) throws(FileSystemError) {
        try removeDirectory(path, at: .workingDirectory)
    }

    /// The status of the file at `path`, or of the link itself if links are not followed.
    @inlinable public func status(
        _ path: POSIXPath, at directory: Descriptor = .workingDirectory, followsSymbolicLinks: Bool = true
    ) throws(FileSystemError) -> FileStatus {
        try status(of: .path(path, at: directory, followsSymbolicLinks: followsSymbolicLinks))
    }

    /// Inode, size and number of links of a file, taken from its status.
    public func briefStatus(of file: FileReference) throws(FileSystemError) -> BriefFileStatus {
        BriefFileStatus(try status(of: file))
    }

    /// Whether a file exists at `path`; unlike `fileExists(atPath:)`, it throws if the lookup fails.
    public func exists(
        _ path: POSIXPath, at directory: Descriptor = .workingDirectory, followsSymbolicLinks: Bool = true
    ) throws(FileSystemError) -> Bool {
        do {
            _ = try status(path, at: directory, followsSymbolicLinks: followsSymbolicLinks)
            return true
        } catch  where error.errno == .noSuchFileOrDirectory {
            return false
        }
    }

    /// Opens a directory, calls `body` with its descriptor and closes it again.
    public func withDirectory<Result>(
        _ path: POSIXPath, at directory: Descriptor = .workingDirectory, resolution: PathResolution = [],
        _ body: (Descriptor) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        let descriptor = try open(
            path, at: directory, .readOnly, options: [.directory], permissions: [], resolution: resolution)
        defer { discard(descriptor) }
        return try body(descriptor)
    }

    /// Closes a descriptor that was not written to, ignoring an error of closing it.
    package func discard(_ descriptor: Descriptor) {
        do { try close(descriptor) } catch _ {}
    }

    /// Calls `body` and closes `descriptor`; an error of closing is thrown unless `body` has thrown.
    public func closing<Result>(
        _ descriptor: Descriptor, _ body: () throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        let result: Result
        do {
            result = try body()
        } catch {
            // The first failure is the one to report; the descriptor is released in either case.
            do { try close(descriptor) } catch _ {}
            throw error
        }
        try close(descriptor)
        return result
    }
}
