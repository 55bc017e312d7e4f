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

    private let fileSystem = SystemFileSystem()
    private let root: POSIXPath
    private let skipsStores: Bool
    private var levels: [Level] = []
    /// The directory that the next call reads first.
    private var pending: POSIXPath??

    /// - Parameters:
    ///   - root: The directory.
    ///   - skipsStores: Whether directories below that are the root of a store are left out.
    init(_ root: POSIXPath, skipsStores: Bool) {
        self.root = root
        self.skipsStores = skipsStores
        pending = .some(nil)
    }

    /// The next entry that is not a directory; nil after the last.
    ///
    /// - Throws: `FileSystemError` for a directory that cannot be read; the next call continues behind it.
    mutating func next() throws(FileSystemError) -> Entry? {
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
            guard !entry.name.isLeftover else { continue }
            pending = .some(path)
        }
    }

    private mutating func read(_ directory: POSIXPath?) throws(FileSystemError) {
        let path = directory.map(root.appending) ?? root
        var entries: [DirectoryEntry]
        do throws(FileSystemError) {
            entries = try fileSystem.withDirectory(path) { (descriptor) throws(FileSystemError) in
                try fileSystem.entries(of: descriptor)
            }
        } catch  where directory != nil && [.noSuchFileOrDirectory, .notDirectory].contains(error.errno) {
            return
        }
        if skipsStores, directory != nil, entries.contains(where: \.name.isStoreMarker) { return }
        entries.sort { $1.name.bytes.lexicographicallyPrecedes($0.name.bytes) }
        levels.append(Level(directory: directory, entries: entries))
    }
}
