import ForgeStorage
import SystemPackage

/// The entries of a directory tree, each directory's in the order of their names, read one directory at a time.
///
/// Memory is that of the names in the directories on the current path. Links are not followed.
struct FileWalk {
    struct Entry {
        /// Relative to the root of the walk.
        var path: POSIXPath
        var type: FileType
    }

    private struct Level {
        var directory: POSIXPath?
        /// The entries still to come, in reverse order.
        var entries: [DirectoryEntry]
    }

    /// The other place of the copy is below the walked one, for example mounted there.
    struct ContainsOther: Error {}

    private let root: ConfinedDirectory
    private let skipsStores: Bool
    private let skipsLeftovers: Bool
    private let other: DirectoryIdentity?
    private var levels: [Level] = []
    /// The directory that the next call reads first.
    private var pending: POSIXPath??

    /// - Parameters:
    ///   - root: The directory.
    ///   - skipsStores: Whether directories below that are the root of a store are left out.
    ///   - skipsLeftovers: Whether directories that a store is removing are left out.
    ///   - other: The other place of a copy, which must not be found below this one.
    init(
        _ root: ConfinedDirectory, skipsStores: Bool, skipsLeftovers: Bool, other: DirectoryIdentity? = nil
    ) {
        self.root = root
        self.skipsStores = skipsStores
        self.skipsLeftovers = skipsLeftovers
        self.other = other
        pending = .some(nil)
    }

    /// The next entry that is not a directory; nil after the last.
    ///
    /// - Throws: `FileSystemError` for a directory that cannot be read, with its path below the root; the next call
    ///   continues behind it. ``ContainsOther``.
    mutating func next() throws -> Entry? {
        while true {
            if let directory = pending {
                pending = nil
                try read(directory)
            }
            guard let entry = levels[max(levels.count - 1, 0)..<levels.count].first?.entries.last else {
                guard levels.popLast() != nil else { return nil }
                continue
            }
            levels[levels.count - 1].entries.removeLast()
            let path = levels[levels.count - 1].directory?.appending(entry.name) ?? entry.name
            guard entry.type == .directory else { return Entry(path: path, type: entry.type) }
            if skipsLeftovers, entry.name.isLeftover { continue }
            pending = .some(path)
        }
    }

    private mutating func read(_ directory: POSIXPath?) throws {
        let listed: [DirectoryEntry]?
        do throws(FileSystemError) {
            listed = try list(directory ?? ".")
        } catch {
            // Removed, or replaced by something else, since it was listed.
            if directory != nil, error.errno.isDisappearance { return }
            throw FileSystemError(error.operation, error.errno, path: directory ?? root.path)
        }
        guard var entries = listed else { throw ContainsOther() }
        if skipsStores, directory != nil, entries.contains(where: \.name.isStoreMarker) { return }
        entries.sort { $1.name.bytes.lexicographicallyPrecedes($0.name.bytes) }
        levels.append(Level(directory: directory, entries: entries))
    }

    /// The entries of a directory; nil if it is the other place.
    private func list(_ directory: POSIXPath) throws(FileSystemError) -> [DirectoryEntry]? {
        try root.withDirectory(directory) { (descriptor) throws(FileSystemError) in
            let identity = DirectoryIdentity(try root.fileSystem.status(of: .descriptor(descriptor)))
            return identity == other ? nil : try root.fileSystem.entries(of: descriptor)
        }
    }
}
