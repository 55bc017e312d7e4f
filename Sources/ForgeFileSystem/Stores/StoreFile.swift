import SystemPackage

extension POSIXFileSystem {
    /// Opens an internal file of a store with a permanent name, such as `#lock`; creates it with mode 0600 regardless
    /// of the umask.
    ///
    /// - Parameters:
    ///   - name: The name of the file.
    ///   - directory: The open directory of the store.
    ///   - isWritten: False for a file that is only locked.
    /// - Returns: The file, open for reading and writing.
    /// - Throws: `ENOTSUP` if a file that is not regular has the name, `EMLINK` if the file is written and has several
    ///   hard links: a write to it would change a file that does not belong to the store.
    package func openStoreFile(
        _ name: POSIXPath, at directory: Descriptor, isWritten: Bool = true
    ) throws(FileSystemError) -> Descriptor {
        while true {
            do throws(FileSystemError) {
                return try openExistingStoreFile(name, at: directory, isWritten)
            } catch {
                guard error.errno == .noSuchFileOrDirectory else { throw error }
            }
            do throws(FileSystemError) {
                return try createStoreFile(name, at: directory)
            } catch {
                // Another process created it first.
                guard error.errno == .fileExists else { throw error }
            }
        }
    }

    private func openExistingStoreFile(
        _ name: POSIXPath, at directory: Descriptor, _ isWritten: Bool
    ) throws(FileSystemError) -> Descriptor {
        let file = try open(
            name, at: directory, .readWrite, options: [.noFollow, .nonBlocking], permissions: [],
            resolution: [.beneath, .noSymbolicLinks])
        do throws(FileSystemError) {
            let status = try withPathInErrors(name) { () throws(FileSystemError) -> FileStatus in
                try self.status(of: .descriptor(file))
            }
            guard status.type == .regular else { throw FileSystemError(.open, .notSupported, path: name) }
            guard status.linkCount <= 1 || !isWritten else { throw FileSystemError(.open, .tooManyLinks, path: name) }
        } catch {
            discard(file)
            throw error
        }
        return file
    }

    /// Creates an internal file of a store, with mode 0600 regardless of the umask.
    ///
    /// - Throws: `EEXIST` if the name exists. A file whose mode could not be set is kept.
    package func createStoreFile(_ name: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> Descriptor {
        let file = try retryingInterrupts { () throws(FileSystemError) in
            try open(
                name, at: directory, .readWrite, options: [.create, .exclusiveCreate, .noFollow],
                permissions: .privateFile, resolution: [.beneath, .noSymbolicLinks])
        }
        do throws(FileSystemError) {
            try withPathInErrors(name) { () throws(FileSystemError) in
                try setPermissions(.privateFile, of: .descriptor(file))
            }
        } catch {
            discard(file)
            throw error
        }
        return file
    }
}
