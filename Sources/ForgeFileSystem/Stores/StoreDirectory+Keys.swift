import SystemPackage

/// What can be done with one key.
extension StoreDirectory {
    /// The whole content of a key's file.
    ///
    /// - Throws: `ENOENT` if there is none, `EISDIR` for a directory, `ELOOP` for a link, `EFBIG` past the maximum,
    ///   `EMLINK` for a file that has another name too, through which somebody else could change it.
    package func read(_ key: RelativeKey, maximumSizeInBytes: Int = .max) throws(FileSystemError) -> [UInt8] {
        try withFile(key) { (descriptor) throws(FileSystemError) in
            try fileSystem.readContents(of: descriptor, maximumSizeInBytes: maximumSizeInBytes)
        }
    }

    /// Opens a key's file for reading, checks that it is a plain file of the store's own, and closes it after `body`.
    package func withFile<Result>(
        _ key: RelativeKey, _ body: (Descriptor) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        try withCheckedFile(key) { (descriptor, _) throws(FileSystemError) in try body(descriptor) }
    }

    /// The same for a body that wants to know what the check has seen.
    package func withCheckedFile<Result>(
        _ key: RelativeKey, _ body: (Descriptor, FileStatus) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        let descriptor = try fileSystem.retryingInterrupts { () throws(FileSystemError) in
            // Without nonBlocking, opening a FIFO that somebody put there would wait for ever.
            try fileSystem.open(
                key.path, at: root, .readOnly, options: [.noFollow, .nonBlocking], permissions: [],
                resolution: Self.resolution)
        }
        return try fileSystem.naming(key.path) { () throws(FileSystemError) in
            try fileSystem.closing(descriptor) { () throws(FileSystemError) in
                let status = try fileSystem.status(of: .descriptor(descriptor))
                try Self.check(status, of: key)
                return try body(descriptor, status)
            }
        }
    }

    private static func check(_ status: FileStatus, of key: RelativeKey) throws(FileSystemError) {
        switch status.type {
        case .regular: break
        case .directory: throw FileSystemError(.read, .isDirectory, path: key.path)
        default: throw FileSystemError(.read, .notSupported, path: key.path)
        }
        guard status.linkCount <= 1 else { throw FileSystemError(.read, .tooManyLinks, path: key.path) }
    }

    /// Stores bytes under a key, creating directories as needed; see `replaceFile`.
    package func replace(
        _ key: RelativeKey, with bytes: UnsafeRawBufferPointer, _ mode: RenameMode = .replacing,
        durability: Durability = .full
    ) throws(FileSystemError) {
        try replace(key, mode, durability: durability) { (descriptor) throws(FileSystemError) in
            try fileSystem.writeFully(descriptor, from: bytes)
        }
    }

    /// Stores what `content` writes under a key; `content` may be called again if the directory is removed meanwhile.
    package func replace(
        _ key: RelativeKey, _ mode: RenameMode, durability: Durability,
        content: (Descriptor) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        try withSettledParent(of: key, durability) { (parent, name) throws(FileSystemError) in
            if mode == .exclusive { try refuseExisting(name, at: parent, key) }
            try fileSystem.replaceFile(
                name, at: parent, mode, permissions: .privateFile, durability: durability, content: content)
        }
    }

    /// Moves a file from elsewhere on the same device to a key, by one rename; nothing is checked or synchronised but
    /// the two directories.
    ///
    /// - Throws: `EXDEV` if the file is on another device, `EINVAL`, `ENOSYS` or `ENOTSUP` if an exclusive rename is wanted
    ///   and there is none.
    package func adopt(
        _ source: POSIXPath, at sourceDirectory: Descriptor, as key: RelativeKey, _ mode: RenameMode,
        durability: Durability
    ) throws(FileSystemError) {
        try withSettledParent(of: key, durability) { (parent, name) throws(FileSystemError) in
            if mode == .exclusive { try refuseExisting(name, at: parent, key) }
            try fileSystem.rename(source, at: sourceDirectory, to: name, at: parent, mode)
            // Until both directories are synchronised, a crash may leave both names; the new one first, or none is left.
            try synchronizeNames(parent, key, durability)
            try synchronizeNames(sourceDirectory, key, durability)
        }
    }

    private func refuseExisting(
        _ name: POSIXPath, at parent: Descriptor, _ key: RelativeKey
    ) throws(FileSystemError) {
        let type: FileType
        do {
            type = try fileSystem.status(name, at: parent, followsSymbolicLinks: false).type
        } catch  where error.errno == .noSuchFileOrDirectory {
            return
        }
        throw FileSystemError(.open, type == .directory ? .isDirectory : .fileExists, path: key.path)
    }

    /// What there is to know of a key's file or directory, a link itself.
    package func status(of key: RelativeKey) throws(FileSystemError) -> FileStatus {
        try withParent(of: key, creating: false) { (parent, name) throws(FileSystemError) in
            try fileSystem.status(name, at: parent, followsSymbolicLinks: false)
        }
    }

    /// Removes a key's file; a link is removed itself.
    package func unlink(_ key: RelativeKey, durability: Durability = .full) throws(FileSystemError) {
        try withParent(of: key, creating: false) { (parent, name) throws(FileSystemError) in
            do throws(FileSystemError) {
                try fileSystem.unlink(name, at: parent)
            } catch  where error.errno == .notPermitted {
                // Darwin says EPERM of a directory.
                let type = try fileSystem.status(name, at: parent, followsSymbolicLinks: false).type
                guard type == .directory else { throw error }
                throw FileSystemError(.unlink, .isDirectory, path: key.path)
            }
            try synchronizeNames(parent, key, durability)
        }
    }

    /// Creates a directory and its parents.
    package func makeDirectory(_ key: RelativeKey, durability: Durability = .full) throws(FileSystemError) {
        try fileSystem.makeDirectories(
            key.path, at: root, permissions: .privateDirectory, resolution: Self.resolution, durability: .none)
        guard durability == .full else { return }
        try withDirectory(key) { (directory) throws(FileSystemError) in try settle(key.path, directory) }
    }
}
