import SystemPackage

/// Operations on one key.
extension StoreDirectory {
    /// The whole content of a key's file.
    ///
    /// - Throws: `ENOENT` if there is none, `EISDIR` for a directory, `ELOOP` for a link, `EFBIG` above the maximum.
    package func read(_ key: RelativeKey, maximumSizeInBytes: Int = .max) throws(FileSystemError) -> [UInt8] {
        try openFile(key).contents(maximumSizeInBytes: maximumSizeInBytes)
    }

    /// Opens a key's file for reading, and checks that it is a regular file of the store.
    package func openFile(_ key: RelativeKey) throws(FileSystemError) -> OpenFile {
        try fileSystem.openFile(at: location(of: key))
    }

    /// The status of a key's file or directory, or of a link itself.
    package func status(of key: RelativeKey) throws(FileSystemError) -> FileStatus {
        try fileSystem.status(at: location(of: key))
    }

    /// Throws unless a file may be a store's. Its number of hard links does not matter: a save replaces the name, and
    /// the other names keep the file (`cp -al`, `rsync --link-dest`, deduplicators).
    static func check(_ status: FileStatus, of key: RelativeKey) throws(FileSystemError) {
        switch status.type {
        case .regular: break
        case .directory: throw FileSystemError(.read, .isDirectory, path: key.path)
        case .symbolicLink: throw FileSystemError(.open, .tooManySymbolicLinkLevels, path: key.path)
        default: throw FileSystemError(.read, .notSupported, path: key.path)
        }
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

    /// Stores the bytes that `content` writes under a key; `content` may be called again if the directory is removed
    /// meanwhile.
    ///
    /// - Throws: As ``stage(_:_:_:)`` and ``place(_:_:expecting:durability:flushesNames:isFresh:)``.
    package func replace(
        _ key: RelativeKey, _ mode: RenameMode, durability: Durability,
        content: (Descriptor) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        var attempts = 0
        while true {
            let file = try stage(key, durability, mode)
            defer { file.discard() }
            do throws(FileSystemError) {
                try file.withFile(content)
                try file.finish(durability)
                try place(file, mode, durability: durability, isFresh: true)
                return
            } catch  where error.errno == .noSuchFileOrDirectory && key.isNested && attempts < 1000 {
                attempts += 1
            }
        }
    }

    /// Gives a new file a modification time of its own, so that its ``FileRevision`` is unique; best effort, because
    /// not every file system can set times.
    package func setPreciseTime(of file: Descriptor) {
        guard let now = fileSystem.preciseTime else { return }
        do { try fileSystem.setTimes(accessed: nil, modified: now, of: .descriptor(file)) } catch _ {}
    }

    /// Renames a file with a private name in the root to a key's name.
    ///
    /// - Parameters:
    ///   - key: The file's key.
    ///   - mode: `.replacing`, or `.exclusive` to fail with `EEXIST` if the file exists.
    ///   - durability: Whether the rename is synchronised.
    ///   - claim: Gives the file a private name in the root and returns it. Called just before the rename, and again if
    ///     the key's directory is removed meanwhile.
    ///   - restore: Reverts `claim` after the rename failed.
    /// - Throws: The errors of `claim` and `restore`; `EXDEV` if the key's directory is on another device; `EINVAL`,
    ///   `ENOSYS` or `ENOTSUP` if an exclusive rename is requested but not supported; for an existing file as
    ///   ``place(_:_:expecting:durability:flushesNames:isFresh:)``.
    package func adopt(
        as key: RelativeKey, _ mode: RenameMode, durability: Durability,
        claim: (_ root: Descriptor) throws(FileSystemError) -> POSIXPath, restore: () throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        let isInRoot = key.path.splitLast().parent.isEmpty
        try withDurableParent(of: key, durability) { (parent, name) throws(FileSystemError) in
            try synchronizingPresence(of: key, at: parent, durability) { () throws(FileSystemError) in
                try requireReplaceable(name, at: parent, mode, key)
                let privateName = try claim(root)
                do throws(FileSystemError) {
                    try takingTurn(in: parent, of: key) { () throws(FileSystemError) in
                        try fileSystem.rename(privateName, at: root, to: name, at: parent, mode)
                    }
                } catch {
                    try restore()
                    throw error
                }
            }
            // Until both directories are synchronised, a crash may leave both names. The new name is synchronised
            // first; otherwise a crash could leave none.
            try synchronizeNames(parent, key.path, durability)
            if !isInRoot { try synchronizeNames(root, key.path, durability) }
        }
    }

    /// Calls `body`; if it fails because a file exists, makes the name of that file durable before throwing, because
    /// the process that stored the file may have been killed before doing so.
    func synchronizingPresence(
        of key: RelativeKey, at parent: Descriptor, _ durability: Durability, _ body: () throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        do throws(FileSystemError) {
            try body()
        } catch {
            if error.errno == .fileExists { try synchronizeNames(parent, key.path, durability) }
            throw error
        }
    }

    /// Throws unless a key's file may be replaced; returns whether there is one.
    @discardableResult
    func requireReplaceable(
        _ name: POSIXPath, at parent: Descriptor, _ mode: RenameMode, _ key: RelativeKey
    ) throws(FileSystemError) -> Bool {
        let status: FileStatus
        do {
            status = try fileSystem.status(name, at: parent, followsSymbolicLinks: false)
        } catch  where error.errno == .noSuchFileOrDirectory {
            return false
        }
        guard status.type != .directory else { throw FileSystemError(.open, .isDirectory, path: key.path) }
        guard mode != .exclusive else { throw FileSystemError(.open, .fileExists, path: key.path) }
        try Self.check(status, of: key)
        return true
    }

    /// Removes a key's file.
    ///
    /// - Throws: `ENOENT` if there is none, which is durable too; `EISDIR` for a directory; `ELOOP` or `ENOTSUP` for a
    ///   file that does not belong to the store, and is kept.
    package func unlink(_ key: RelativeKey, durability: Durability = .full) throws(FileSystemError) {
        try removing(key, durability) { (parent, name) throws(FileSystemError) in
            try takingTurn(in: parent, of: key) { () throws(FileSystemError) in
                let status = try fileSystem.status(name, at: parent, followsSymbolicLinks: false)
                guard status.type != .directory else { throw FileSystemError(.unlink, .isDirectory, path: key.path) }
                try Self.check(status, of: key)
                try fileSystem.unlink(name, at: parent)
            }
            try synchronizeNames(parent, key.path, durability)
        }
    }

    /// Creates a directory and its parents.
    package func makeDirectory(_ key: RelativeKey, durability: Durability = .full) throws(FileSystemError) {
        try requireNoOtherRoot(key.path)
        try fileSystem.createDirectories(
            key.path, at: root, permissions: .privateDirectory, resolution: Self.resolution)
        guard durability == .full else { return }
        try withDirectory(key) { (directory) throws(FileSystemError) in
            try synchronizeAncestors(of: key.path, directory)
        }
    }
}
