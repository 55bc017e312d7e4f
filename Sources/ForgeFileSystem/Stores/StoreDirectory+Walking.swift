import Synchronization
import SystemPackage

/// The walk from the root to a key, and what makes the names on it durable.
extension StoreDirectory {
    /// Opens a directory of the store, nil being the root.
    package func withDirectory<Result>(
        _ key: RelativeKey?, _ body: (Descriptor) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        guard let key else { return try body(root) }
        return try fileSystem.withDirectory(key.path, at: root, resolution: Self.resolution, body)
    }

    /// Opens the directory that a key's last component stands in; one that is created is not durable yet.
    package func withParent<Result>(
        of key: RelativeKey, creating: Bool,
        _ body: (_ parent: Descriptor, _ name: POSIXPath) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        let (parent, name) = key.path.splitLast()
        return try fileSystem.naming(key.path) { () throws(FileSystemError) -> Result in
            guard !parent.isEmpty else { return try body(root, name) }
            let descriptor = try openParent(parent, creating: creating)
            defer { fileSystem.discard(descriptor) }
            return try body(descriptor, name)
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
            // Made durable by `settle`, together with those that others have created.
            try fileSystem.makeDirectories(
                parent, at: root, permissions: .privateDirectory, resolution: Self.resolution, durability: .none)
            return try open()
        }
    }

    /// Opens the directory for a key that is about to be stored, its own name durable if the key is to be.
    ///
    /// Called again if somebody removes the directory meanwhile; every time one of the two gets on.
    func withSettledParent(
        of key: RelativeKey, _ durability: Durability,
        _ body: (_ parent: Descriptor, _ name: POSIXPath) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        let directory = key.path.splitLast().parent
        var attempts = 0
        while true {
            do {
                return try withParent(of: key, creating: true) { (parent, name) throws(FileSystemError) in
                    if durability == .full, !directory.isEmpty { try settle(directory, parent) }
                    try body(parent, name)
                }
            } catch  where error.errno == .noSuchFileOrDirectory && !directory.isEmpty && attempts < 1000 {
                attempts += 1
            }
        }
    }

    /// Makes the names on the way to a directory durable, once for each: whoever created one may have been killed before
    /// doing so, or may have had no need to.
    func settle(_ directory: POSIXPath, _ descriptor: Descriptor) throws(FileSystemError) {
        let inode = try fileSystem.status(of: .descriptor(descriptor)).inode
        guard !settled.withLock({ $0.contains(directory, inode) }) else { return }
        let parent = directory.splitLast().parent
        if parent.isEmpty {
            try fileSystem.synchronize(root, .full)
        } else {
            try fileSystem.withDirectory(parent, at: root, resolution: Self.resolution) {
                (above) throws(FileSystemError) in
                try settle(parent, above)
                try fileSystem.synchronize(above, .full)
            }
        }
        settled.withLock { $0.insert(directory, inode) }
    }

    /// Forgets which directories are durable. To be called while removed ones still take up their inodes.
    func unsettle() {
        settled.withLock { $0.removeAll() }
    }

    /// Makes a removal durable; if that fails, the removal stands but may be undone by a power cut.
    package func synchronizeNames(
        _ directory: Descriptor, _ key: RelativeKey?, _ durability: Durability = .full
    ) throws(FileSystemError) {
        guard durability == .full else { return }
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
