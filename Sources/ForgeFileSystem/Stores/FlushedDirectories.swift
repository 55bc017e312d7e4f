import Synchronization

/// The directories whose names a store object has made durable.
///
/// Each is held open, so that no other directory can get its inode number and a replacement of a removed directory is
/// not mistaken for it. The number of descriptors is bounded; evicting a directory costs one flush.
final class FlushedDirectories: Sendable {
    private struct Entry {
        var path: POSIXPath
        var identity: DirectoryIdentity
        var descriptor: Descriptor
    }

    private static let limit = 8

    private let fileSystem: any POSIXFileSystem
    /// In order of last use, the most recent at the end.
    private let entries = Mutex<[Entry]>([])

    init(on fileSystem: any POSIXFileSystem) {
        self.fileSystem = fileSystem
    }

    deinit {
        removeAll()
    }

    func contains(_ path: POSIXPath, _ identity: DirectoryIdentity) -> Bool {
        entries.withLock { entries in
            guard let index = entries.lastIndex(where: { $0.path == path && $0.identity == identity }) else {
                return false
            }
            if index != entries.count - 1 { entries.append(entries.remove(at: index)) }
            return true
        }
    }

    /// Adds a directory, with a descriptor of its own.
    func insert(_ path: POSIXPath, _ identity: DirectoryIdentity, _ directory: Descriptor) {
        let own: Descriptor
        do {
            own = try fileSystem.duplicate(directory)
        } catch {
            return  // Without a descriptor, the next save flushes again.
        }
        let dropped = entries.withLock { entries in
            var dropped = entries.filter { $0.path == path }
            entries.removeAll { $0.path == path }
            if entries.count >= Self.limit { dropped.append(entries.removeFirst()) }
            entries.append(Entry(path: path, identity: identity, descriptor: own))
            return dropped
        }
        for entry in dropped { fileSystem.discard(entry.descriptor) }
    }

    /// Removes all directories; returns whether that closed a descriptor.
    @discardableResult
    func removeAll() -> Bool {
        let dropped = entries.withLock { entries in
            defer { entries = [] }
            return entries
        }
        for entry in dropped { fileSystem.discard(entry.descriptor) }
        return !dropped.isEmpty
    }
}
