import SystemPackage

extension POSIXFileSystem {
    /// Opens a file of a store's own that keeps its name for ever, such as `#lock`, and creates it with mode 0600
    /// whatever the umask.
    ///
    /// - Throws: `ENOTSUP` if something other than a regular file has the name, `EMLINK` if the file has another name
    ///   too: what is written to it would change a file that is not the store's.
    package func openStoreFile(_ name: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> Descriptor {
        while true {
            do throws(FileSystemError) {
                return try openExistingStoreFile(name, at: directory)
            } catch {
                guard error.errno == .noSuchFileOrDirectory else { throw error }
            }
            do throws(FileSystemError) {
                return try createStoreFile(name, at: directory)
            } catch {
                // Another process was faster.
                guard error.errno == .fileExists else { throw error }
            }
        }
    }

    private func openExistingStoreFile(_ name: POSIXPath, at directory: Descriptor) throws(FileSystemError)
        -> Descriptor
    {
        let file = try open(
            name, at: directory, .readWrite, options: [.noFollow, .nonBlocking], permissions: [],
            resolution: [.beneath, .noSymbolicLinks])
        do throws(FileSystemError) {
            let status = try naming(name) { () throws(FileSystemError) -> FileStatus in
                try self.status(of: .descriptor(file))
            }
            guard status.type == .regular else { throw FileSystemError(.open, .notSupported, path: name) }
            guard status.linkCount <= 1 else { throw FileSystemError(.open, .tooManyLinks, path: name) }
        } catch {
            discard(file)
            throw error
        }
        return file
    }

    /// Creates a file of a store's own, with mode 0600 whatever the umask.
    ///
    /// - Throws: `EEXIST` if something has the name. A file whose mode could not be set stays.
    package func createStoreFile(_ name: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> Descriptor {
        let file = try retryingInterrupts { () throws(FileSystemError) in
            try open(
                name, at: directory, .readWrite, options: [.create, .exclusiveCreate, .noFollow],
                permissions: .privateFile, resolution: [.beneath, .noSymbolicLinks])
        }
        do throws(FileSystemError) {
            try naming(name) { () throws(FileSystemError) in
                try setPermissions(.privateFile, of: .descriptor(file))
            }
        } catch {
            discard(file)
            throw error
        }
        return file
    }
}
