import SystemPackage

/// The root directory of a store that keeps one file for each key: the only way such a store reaches the disk.
///
/// The root is held open, and every key is walked from it without following a link or leaving it, so nothing outside
/// can be reached whatever happens to the tree meanwhile. Files are 0600 and directories 0700.
package final class StoreDirectory: Sendable {
    /// The file system that holds the store.
    package let fileSystem: any POSIXFileSystem

    /// Where the root is.
    package let path: POSIXPath

    private let root: Descriptor
    private let lock: StoreLock?

    /// How keys are walked.
    private static let resolution: PathResolution = [.beneath, .noSymbolicLinks]

    /// Opens the store's root, creating it durably if it is missing, and sweeps what a crash left over.
    ///
    /// Leftovers are swept only while no other object, in any process, has the store open.
    package init(_ path: POSIXPath, on fileSystem: any POSIXFileSystem) throws(FileSystemError) {
        try fileSystem.makeDirectories(path, permissions: .privateDirectory)
        let root = try fileSystem.open(
            path, at: .workingDirectory, .readOnly, options: [.directory], permissions: [], resolution: [])
        self.fileSystem = fileSystem
        self.path = path
        self.root = root
        do throws(FileSystemError) {
            lock = try Self.sweepIfAlone(root, on: fileSystem)
        } catch {
            do { try fileSystem.close(root) } catch _ {}
            throw error
        }
    }

    deinit {
        do { try fileSystem.close(root) } catch _ {}  // Nothing can be done about it here, and nothing is lost.
    }

    private static func sweepIfAlone(
        _ root: Descriptor, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> StoreLock? {
        do throws(FileSystemError) {
            let lock = try StoreLock(.exclusive, at: root, on: fileSystem)
            try sweep(root, depth: 0, on: fileSystem)
            try lock.share()
            return lock
        } catch  where error.operation == .lock && error.errno == .resourceTemporarilyUnavailable {
            // Others use the store, or one of them is just sweeping it.
            return try StoreLock(.shared, waiting: true, at: root, on: fileSystem)
        } catch  where error.errno == .readOnlyFileSystem || error.errno == .permissionDenied {
            return nil  // A store that can only be read keeps its leftovers.
        }
    }

    private static func sweep(
        _ directory: Descriptor, depth: Int, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) {
        for entry in try fileSystem.entries(of: directory) {
            if entry.name.isLeftover {
                try fileSystem.removeEntry(entry.name, at: directory)
            } else if entry.type == .directory, depth < RelativeKey.maximumDepth {
                try fileSystem.withDirectory(entry.name, at: directory, resolution: resolution) {
                    (below) throws(FileSystemError) in
                    try sweep(below, depth: depth + 1, on: fileSystem)
                }
            }
        }
    }
}

// MARK: One key

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
                return try body(descriptor)
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

    /// Stores what `content` writes under a key.
    package func replace(
        _ key: RelativeKey, _ mode: RenameMode, durability: Durability,
        content: (Descriptor) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        try withParent(of: key, creating: true) { (parent, name) throws(FileSystemError) in
            if mode == .exclusive, try exists(name, at: parent) {
                throw FileSystemError(.open, .fileExists, path: key.path)
            }
            try fileSystem.replaceFile(
                name, at: parent, mode, permissions: .privateFile, durability: durability, content: content)
        }
    }

    private func exists(_ name: POSIXPath, at parent: Descriptor) throws(FileSystemError) -> Bool {
        do {
            _ = try fileSystem.status(name, at: parent, followsSymbolicLinks: false)
            return true
        } catch  where error.errno == .noSuchFileOrDirectory {
            return false
        }
    }

    /// What there is to know of a key's file or directory, a link itself.
    package func status(of key: RelativeKey) throws(FileSystemError) -> FileStatus {
        try withParent(of: key, creating: false) { (parent, name) throws(FileSystemError) in
            try fileSystem.status(name, at: parent, followsSymbolicLinks: false)
        }
    }

    /// Removes a key's file, durably; a link is removed itself.
    package func unlink(_ key: RelativeKey) throws(FileSystemError) {
        try withParent(of: key, creating: false) { (parent, name) throws(FileSystemError) in
            try fileSystem.unlink(name, at: parent)
            try synchronizeNames(parent, key)
        }
    }

    /// Creates a directory and its parents.
    package func makeDirectory(_ key: RelativeKey) throws(FileSystemError) {
        try fileSystem.makeDirectories(
            key.path, at: root, permissions: .privateDirectory, resolution: Self.resolution)
    }

    /// Opens a directory of the store, nil being the root.
    package func withDirectory<Result>(
        _ key: RelativeKey?, _ body: (Descriptor) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        guard let key else { return try body(root) }
        return try fileSystem.withDirectory(key.path, at: root, resolution: Self.resolution, body)
    }

    /// Opens the directory that a key's last component stands in.
    package func withParent<Result>(
        of key: RelativeKey, creating: Bool,
        _ body: (_ parent: Descriptor, _ name: POSIXPath) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        let (parent, name) = key.path.splitLast()
        return try fileSystem.naming(key.path) { () throws(FileSystemError) -> Result in
            guard !parent.isEmpty else { return try body(root, name) }
            let descriptor = try openParent(parent, creating: creating)
            return try fileSystem.closing(descriptor) { () throws(FileSystemError) in try body(descriptor, name) }
        }
    }

    private func openParent(_ parent: POSIXPath, creating: Bool) throws(FileSystemError) -> Descriptor {
        func open() throws(FileSystemError) -> Descriptor {
            try fileSystem.open(
                parent, at: root, .readOnly, options: [.directory], permissions: [], resolution: Self.resolution)
        }
        do {
            return try open()
        } catch  where creating && error.errno == .noSuchFileOrDirectory {
            try fileSystem.makeDirectories(
                parent, at: root, permissions: .privateDirectory, resolution: Self.resolution)
            return try open()
        }
    }

    /// Makes a removal durable; if that fails, the removal stands but may be undone by a power cut.
    package func synchronizeNames(_ directory: Descriptor, _ key: RelativeKey?) throws(FileSystemError) {
        do {
            try fileSystem.synchronize(directory, .full)
        } catch {
            var unknown = error
            unknown.path = key?.path ?? path
            unknown.isEffectVisible = true
            throw unknown
        }
    }
}
