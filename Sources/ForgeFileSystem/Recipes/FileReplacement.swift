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
        _ name: POSIXPath, at directory: Descriptor, with bytes: UnsafeRawBufferPointer,
        _ mode: RenameMode = .replacing,
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
            try moveIntoPlace(temporary, to: name, at: directory, mode) { () throws(FileSystemError) in
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
        try moveIntoPlace(temporary, to: name, at: directory, mode) { () throws(FileSystemError) in
            try closing(descriptor) { () throws(FileSystemError) in
                try fill(descriptor, permissions, durability, content)
            }
        }
        if durability == .full { try synchronizeName(name, at: directory) }
    }

    /// Calls `fill` to write a temporary file and renames it; removes it if that fails.
    private func moveIntoPlace(
        _ temporary: POSIXPath, to name: POSIXPath, at directory: Descriptor, _ mode: RenameMode,
        afterFilling fill: () throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        do {
            try withPathInErrors(temporary, fill)
            try moveIntoPlace(temporary, to: name, at: directory, mode)
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
            try synchronize(directory, .full)
        } catch {
            var unknown = error
            unknown.path = name
            unknown.isEffectVisible = true
            throw unknown
        }
    }

    private func create(
        _ name: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode, _ permissions: FilePermissions
    ) throws(FileSystemError) -> Descriptor {
        try retryingInterrupts { () throws(FileSystemError) in
            try open(
                name, at: directory, mode, options: [.create, .exclusiveCreate, .noFollow], permissions: permissions)
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
            try withPathInErrors(name) { () throws(FileSystemError) in
                try setPermissions(.privateFile, of: .descriptor(descriptor))
            }
        } catch {
            discard(descriptor)
            // A file that cannot be opened would make every later call fail.
            do { try unlink(name, at: directory) } catch _ {}
            throw error
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

    /// Renames. On a file system without exclusive rename, creates a hard link, which also fails if the name exists.
    private func moveIntoPlace(
        _ temporary: POSIXPath, to name: POSIXPath, at directory: Descriptor, _ mode: RenameMode
    ) throws(FileSystemError) {
        do {
            try rename(temporary, at: directory, to: name, at: directory, mode)
        } catch  where mode == .exclusive && error.errno.isMissingFeature {
            try link(temporary, at: directory, to: name, at: directory)
            do {
                try unlink(temporary, at: directory)
            } catch {
                // The file is in place, but has two names.
                var visible = error
                visible.path = name
                visible.isEffectVisible = true
                throw visible
            }
        }
    }
}

extension Durability {
    /// The synchronisation of a file's content before it gets its name.
    var contentLevel: SyncLevel? {
        switch self {
        case .full: .full
        case .barrier: .barrier
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
