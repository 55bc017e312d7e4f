public import SystemPackage

extension POSIXFileSystem {
    /// Replaces the whole content of a file. With `.full` and `.barrier`, there is the old file or the new one after a
    /// crash at any moment; with `.none`, after a kill of the process.
    ///
    /// A temporary file beside it is written, synchronised as `durability` says, and renamed; with `.full` the
    /// directory is synchronised too (the recipe of Pillai et al., "All File Systems Are Not Created Equal", OSDI
    /// 2014).
    ///
    /// - Parameters:
    ///   - name: One component, relative to `directory`.
    ///   - directory: An open directory.
    ///   - bytes: The new content.
    ///   - mode: `.replacing`, or `.exclusive` to fail with `EEXIST` if the name exists.
    ///   - permissions: The exact mode of the new file, regardless of the umask.
    ///   - durability: The failures that the content survives once the call has returned.
    /// - Throws: ``FileSystemError``. The old file is unchanged and the temporary one removed, unless
    ///   ``FileSystemError/isEffectVisible`` is set: then the new content is in place but may not be durable.
    public func replaceFile(
        _ name: POSIXPath, at directory: Descriptor, with bytes: RawSpan, _ mode: RenameMode = .replacing,
        permissions: FilePermissions = .ownerReadWrite, durability: Durability = .full
    ) throws(FileSystemError) {
        try replaceFile(name, at: directory, mode, permissions: permissions, durability: durability) {
            (descriptor) throws(FileSystemError) in
            try writeFully(descriptor, from: bytes)
        }
    }

    /// Replaces the whole content of a file by the bytes that `content` writes to a descriptor; see above.
    ///
    /// `temporaryPrefix` is the prefix of the temporary file's name, and itself begins with
    /// ``POSIXPath/temporaryPrefix``.
    package func replaceFile(
        _ name: POSIXPath, at directory: Descriptor, _ mode: RenameMode, permissions: FilePermissions,
        durability: Durability, temporaryPrefix: String = POSIXPath.temporaryPrefix,
        content: (Descriptor) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        let (temporary, descriptor) = try createTemporary(temporaryPrefix, at: directory, permissions: permissions)
        try replaceFile(name, at: directory, mode, permissions, durability, temporary, descriptor, content)
    }

    /// The same with a temporary name that only the caller uses; removes a file that an earlier attempt left there.
    package func replaceFile(
        _ name: POSIXPath, at directory: Descriptor, _ mode: RenameMode, permissions: FilePermissions,
        durability: Durability, temporary: POSIXPath, content: (Descriptor) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        let descriptor = try createAnew(temporary, at: directory, .writeOnly, permissions)
        try replaceFile(name, at: directory, mode, permissions, durability, temporary, descriptor, content)
    }

    /// Replaces a file durably like `replaceFile`, and returns the open new file.
    ///
    /// - Returns: The new file, open for reading and writing.
    package func replaceAndKeepOpen(
        _ name: POSIXPath, at directory: Descriptor, _ mode: RenameMode, permissions: FilePermissions,
        temporary: POSIXPath, content: (Descriptor) throws(FileSystemError) -> Void
    ) throws(FileSystemError) -> Descriptor {
        let descriptor = try createAnew(temporary, at: directory, .readWrite, permissions)
        do {
            try writeAndMove(temporary, to: name, at: directory, mode, .full) { () throws(FileSystemError) in
                try fill(descriptor, permissions, .full, content)
            }
            try synchronizeName(name, at: directory)
        } catch {
            discard(descriptor)
            throw error
        }
        return descriptor
    }

    private func replaceFile(
        _ name: POSIXPath, at directory: Descriptor, _ mode: RenameMode, _ permissions: FilePermissions,
        _ durability: Durability, _ temporary: POSIXPath, _ descriptor: Descriptor,
        _ content: (Descriptor) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        try writeAndMove(temporary, to: name, at: directory, mode, durability) {
            () throws(FileSystemError) in
            try closing(descriptor) { () throws(FileSystemError) in
                try fill(descriptor, permissions, durability, content)
            }
        }
        if durability == .full { try synchronizeName(name, at: directory) }
    }

    /// Calls `fill` to write a temporary file, which synchronises it as `synced` says, and renames it; removes it if
    /// that fails.
    private func writeAndMove(
        _ temporary: POSIXPath, to name: POSIXPath, at directory: Descriptor, _ mode: RenameMode, _ synced: Durability,
        filling fill: () throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        do throws(FileSystemError) {
            do throws(FileSystemError) { try fill() } catch { throw error.named(temporary) }
            try moveIntoPlace(temporary, to: name, at: directory, mode, synced)
        } catch {
            // The first failure is the one to report.
            do { try unlink(temporary, at: directory) } catch _ {}
            throw error
        }
    }

    /// Sets the mode and content of a new file, and synchronises it as required before the rename.
    private func fill(
        _ descriptor: Descriptor, _ permissions: FilePermissions, _ durability: Durability,
        _ content: (Descriptor) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        try setPermissions(permissions, of: .descriptor(descriptor))
        try content(descriptor)
        if let level = durability.contentLevel { try synchronize(descriptor, level) }
    }

    /// Makes the name of the new file durable after the rename.
    private func synchronizeName(_ name: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        do {
            try synchronizeDirectory(directory)
        } catch {
            throw error.withVisibleEffect(at: name)
        }
    }

    /// Makes the names in a directory durable, where the file system can synchronise directories at all: `EINVAL`,
    /// `ENOSYS` and `ENOTSUP` (Samba) mean that it writes names before it answers, or offers nothing else.
    package func synchronizeDirectory(_ directory: Descriptor) throws(FileSystemError) {
        do throws(FileSystemError) {
            try synchronize(directory, .full)
        } catch  where error.errno.isMissingFeature {
            return
        }
    }

    private func create(
        _ name: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode, _ permissions: FilePermissions
    ) throws(FileSystemError) -> Descriptor {
        try retryingInterrupts { () throws(FileSystemError) in
            try open(
                name, at: directory, mode, options: [.create, .exclusiveCreate, .noFollow], permissions: permissions,
                resolution: [])
        }
    }

    /// Creates a file under a name that only the caller uses, replacing a leftover.
    private func createAnew(
        _ name: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode, _ permissions: FilePermissions
    ) throws(FileSystemError) -> Descriptor {
        do {
            return try create(name, at: directory, mode, permissions)
        } catch  where error.errno == .fileExists {
            try unlink(name, at: directory)
            return try create(name, at: directory, mode, permissions)
        }
    }

    /// Creates a file with mode 0600, regardless of the umask, and opens it for reading and writing; throws `EEXIST` if
    /// the name exists.
    package func openPrivateFile(
        _ name: POSIXPath, at directory: Descriptor
    ) throws(FileSystemError) -> Descriptor {
        let descriptor = try create(name, at: directory, .readWrite, .privateFile)
        do {
            try setPermissions(.privateFile, of: .descriptor(descriptor))
        } catch {
            discard(descriptor)
            // A file that cannot be opened would make every later call fail.
            do { try unlink(name, at: directory) } catch _ {}
            throw error.named(name)
        }
        return descriptor
    }

    /// Creates an empty file under a random, unused name.
    package func createTemporary(
        _ prefix: String = POSIXPath.temporaryPrefix, at directory: Descriptor,
        _ mode: FileDescriptor.AccessMode = .writeOnly, permissions: FilePermissions
    ) throws(FileSystemError) -> (POSIXPath, Descriptor) {
        var attempts = 0
        while true {
            let name = POSIXPath.reserved(prefix, using: randomBits)
            attempts += 1
            do {
                return (name, try create(name, at: directory, mode, permissions))
            } catch  where error.errno == .fileExists && attempts < 8 {
                continue
            }
        }
    }

    /// Renames a new file, which was synchronised as `synced` says; with `.replacing`, over the file with the name, if
    /// there is one.
    ///
    /// On Linux, a rename over a file makes ext4 write the delayed blocks of the new one (`auto_da_alloc`), which takes
    /// longer than all other calls of a replacement together. A file that was synchronised has no such blocks; for the
    /// others, whose content need not survive a power cut, the names are exchanged and the old file removed, unless the
    /// caller has found none (`isExpected`).
    package func moveIntoPlace(
        _ temporary: POSIXPath, to name: POSIXPath, at directory: Descriptor, _ mode: RenameMode, _ synced: Durability,
        isExpected: Bool = true
    ) throws(FileSystemError) {
        guard mode == .replacing else { return try moveExclusively(temporary, to: name, at: directory) }
        #if os(Linux)
        if synced == .none, isExpected, try exchange(temporary, with: name, at: directory) { return }
        #endif
        try rename(temporary, at: directory, to: name, at: directory, .replacing)
    }

    /// Exchanges the names of a new file and an existing one, and removes the old file; false if that is not possible.
    private func exchange(
        _ temporary: POSIXPath, with name: POSIXPath, at directory: Descriptor
    ) throws(FileSystemError) -> Bool {
        do throws(FileSystemError) {
            try rename(temporary, at: directory, to: name, at: directory, .exchanging)
        } catch {
            guard error.errno.isMissingFeature || error.errno == .noSuchFileOrDirectory else { throw error }
            return false
        }
        do throws(FileSystemError) {
            try unlink(temporary, at: directory)
        } catch  where error.errno == .noSuchFileOrDirectory {
            return true  // Removed together with the directory.
        } catch {
            // For example a directory that another program has just created at the name.
            do throws(FileSystemError) {
                try rename(temporary, at: directory, to: name, at: directory, .exchanging)
            } catch _ {
                throw error.withVisibleEffect(at: name)
            }
            throw error
        }
        return true
    }

    /// Renames unless the name exists. On a file system without exclusive rename, creates a hard link, which also fails
    /// then.
    private func moveExclusively(
        _ temporary: POSIXPath, to name: POSIXPath, at directory: Descriptor
    ) throws(FileSystemError) {
        do {
            try rename(temporary, at: directory, to: name, at: directory, .exclusive)
        } catch  where error.errno.isMissingFeature {
            try link(temporary, at: directory, to: name, at: directory)
            do {
                try unlink(temporary, at: directory)
            } catch {
                // The file is in place, but has two names.
                throw error.withVisibleEffect(at: name)
            }
        }
    }
}

extension FileSystemError {
    /// The error of a later step of a change that is visible at `path`.
    package func withVisibleEffect(at path: POSIXPath) -> FileSystemError {
        var error = self
        error.path = path
        error.isEffectVisible = true
        return error
    }
}

extension Durability {
    /// The synchronisation of a new file before it gets its name.
    package var contentLevel: SyncLevel? {
        switch self {
        case .full: .full
        #if canImport(Darwin)
        case .barrier: .barrier
        #else
        // There is no barrier, and `fdatasync` leaves out extended attributes. For a new file it costs the same.
        case .barrier: .full
        #endif
        case .none: nil
        }
    }
}

extension Errno {
    /// Whether the kernel or the file system does not support an operation or a flag.
    package var isMissingFeature: Bool {
        self == .invalidArgument || self == .noFunction || self == .notSupported
    }
}
