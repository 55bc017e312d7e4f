import SystemPackage

/// An open directory, which is closed with its last reference.
///
/// The descriptor does not leave the methods: an object may be released after its last use, and a descriptor that is
/// still used then could be that of another file.
package final class OpenDirectory: Sendable {
    package let fileSystem: any POSIXFileSystem

    /// The path of the directory in errors.
    package let path: POSIXPath

    /// The status of the directory when it was opened.
    package let status: FileStatus

    private let descriptor: Descriptor

    /// Opens a directory.
    ///
    /// - Parameters:
    ///   - path: The path of the directory.
    ///   - directory: The start of a relative path.
    ///   - resolution: Limits on path resolution.
    ///   - fileSystem: The file system.
    /// - Throws: ``FileSystemError`` as ``POSIXFileSystem/open(_:at:_:options:permissions:resolution:)``.
    package init(
        _ path: POSIXPath, at directory: Descriptor = .workingDirectory, resolution: PathResolution = [],
        on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) {
        let descriptor = try fileSystem.retryingInterrupts { () throws(FileSystemError) in
            try fileSystem.open(
                path, at: directory, .readOnly, options: [.directory], permissions: [], resolution: resolution)
        }
        do throws(FileSystemError) {
            status = try fileSystem.withPathInErrors(path) { () throws(FileSystemError) in
                try fileSystem.status(of: .descriptor(descriptor))
            }
        } catch {
            fileSystem.discard(descriptor)
            throw error
        }
        self.descriptor = descriptor
        self.path = path
        self.fileSystem = fileSystem
    }

    deinit {
        fileSystem.discard(descriptor)
    }

    /// The identity of the directory, which no other has while it is open.
    package var identity: DirectoryIdentity { DirectoryIdentity(status) }

    /// Calls `body` with the descriptor, which it must not keep.
    package func use<Result: ~Copyable>(
        _ body: (Descriptor) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        try body(descriptor)
    }

    /// The status of an entry, or of a link itself; nil if there is none.
    package func statusIfPresent(_ name: POSIXPath) throws(FileSystemError) -> FileStatus? {
        do throws(FileSystemError) {
            return try fileSystem.status(name, at: descriptor, followsSymbolicLinks: false)
        } catch  where error.errno == .noSuchFileOrDirectory {
            return nil
        }
    }

    /// All names except `.` and `..`, in no particular order.
    package func entries() throws(FileSystemError) -> [DirectoryEntry] { try fileSystem.entries(of: descriptor) }

    /// Removes the name of a file that is not a directory.
    package func unlink(_ name: POSIXPath) throws(FileSystemError) { try fileSystem.unlink(name, at: descriptor) }

    /// Makes the names in the directory durable, where the file system can do that.
    package func synchronize() throws(FileSystemError) { try fileSystem.synchronizeDirectory(descriptor) }
}
