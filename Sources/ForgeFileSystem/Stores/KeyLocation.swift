import SystemPackage

/// Where the file of a key is looked up: a path from an open directory, and the limits on its resolution.
///
/// Either the key's path from the open root, or the whole path, which needs no open root: what is found there is in the
/// directory that is at the root's path now, also if the root was replaced.
struct KeyLocation: Sendable {
    let key: RelativeKey
    let directory: Descriptor
    let path: POSIXPath
    let resolution: PathResolution
}

extension POSIXFileSystem {
    /// Opens a key's file for reading, and checks that it is a regular file of the store.
    func openFile(at location: KeyLocation) throws(FileSystemError) -> (Descriptor, FileStatus) {
        try namingErrors(after: location.key) { () throws(FileSystemError) in
            let descriptor = try retryingInterrupts { () throws(FileSystemError) in
                // Without nonBlocking, opening another program's FIFO would block.
                try open(
                    location.path, at: location.directory, .readOnly, options: [.noFollow, .nonBlocking],
                    permissions: [], resolution: location.resolution)
            }
            do throws(FileSystemError) {
                let status = try self.status(of: .descriptor(descriptor))
                try StoreDirectory.check(status, of: location.key)
                return (descriptor, status)
            } catch {
                discard(descriptor)
                throw error
            }
        }
    }

    /// The status of a key's file or directory, or of a link itself.
    func status(at location: KeyLocation) throws(FileSystemError) -> FileStatus {
        try namingErrors(after: location.key) { () throws(FileSystemError) in
            guard location.key.isNested else {
                return try status(location.path, at: location.directory, followsSymbolicLinks: false)
            }
            let (parent, name) = location.path.splitLast()
            return try withDirectory(parent, at: location.directory, resolution: location.resolution) {
                (directory) throws(FileSystemError) in
                try status(name, at: directory, followsSymbolicLinks: false)
            }
        }
    }

    /// Gives an error the path of a key, relative to the root, whichever path was resolved.
    private func namingErrors<Result>(
        after key: RelativeKey, _ body: () throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        do throws(FileSystemError) {
            return try body()
        } catch {
            var named = error
            named.path = key.path
            throw named
        }
    }
}
