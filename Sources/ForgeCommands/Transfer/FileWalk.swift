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
        /// What stores have written in its directory.
        var owner: StoreEvidence
        /// The root of the store that it is in, relative to the root of the walk and empty for that; nil if there is
        /// none at or below the root of the walk.
        var store: POSIXPath?
    }

    private struct Level {
        var directory: POSIXPath?
        var owner: StoreEvidence
        var store: POSIXPath?
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
    ///   - skipsLeftovers: Whether directories that a store is removing, and has recorded, are left out.
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
            let level = levels[levels.count - 1]
            let path = level.directory?.appending(entry.name) ?? entry.name
            guard entry.type == .directory else {
                return Entry(path: path, type: entry.type, owner: level.owner, store: level.store)
            }
            if skipsLeftovers, level.owner.isTemporary(entry.name) { continue }
            pending = .some(path)
        }
    }

    private mutating func read(_ directory: POSIXPath?) throws {
        let listed: (entries: [DirectoryEntry], owner: StoreEvidence)?
        do throws(FileSystemError) {
            listed = try list(directory ?? ".")
        } catch {
            // Removed, or replaced by something else, since it was listed.
            if directory != nil, error.errno.isDisappearance { return }
            throw FileSystemError(error.operation, error.errno, path: directory ?? root.path)
        }
        guard let (found, owner) = listed else { throw ContainsOther() }
        if skipsStores, directory != nil, owner.isRoot { return }
        let entries = found.sorted { $1.name.bytes.lexicographicallyPrecedes($0.name.bytes) }
        let store = owner.isRoot ? directory ?? "" : levels.last?.store
        levels.append(Level(directory: directory, owner: owner, store: store, entries: entries))
    }

    /// The entries of a directory and what stores have written in it; nil if it is the other place.
    private func list(
        _ directory: POSIXPath
    ) throws(FileSystemError) -> (entries: [DirectoryEntry], owner: StoreEvidence)? {
        try root.withDirectory(directory) { (descriptor) throws(FileSystemError) in
            let fileSystem = root.fileSystem
            guard DirectoryIdentity(try fileSystem.status(of: .descriptor(descriptor))) != other else { return nil }
            let owner =
                try levels.isEmpty
                ? StoreEvidence(at: root.path, on: fileSystem)
                : StoreEvidence(of: descriptor, below: levels[levels.count - 1].owner, on: fileSystem)
            return (try fileSystem.entries(of: descriptor), owner)
        }
    }

    /// The role of a regular file that ``next()`` has returned.
    func role(of entry: Entry) throws(FileSystemError) -> FileRole {
        try entry.owner.role(of: entry.path.splitLast().name) { () throws(FileSystemError) in
            try root.withParent(of: entry.path) { (directory, name) throws(FileSystemError) in
                let file = try root.fileSystem.openRegularFile(name, at: directory).descriptor
                return try root.fileSystem.closing(file) { () throws(FileSystemError) in
                    try root.fileSystem.readBytes(of: file, at: 0, count: 64)
                }
            }
        }
    }
}
