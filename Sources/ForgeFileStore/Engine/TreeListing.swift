import ForgeFileSystem
import SystemPackage

/// The position of a listing in a tree: for each directory on the current path, the entries that are still to come.
struct TreeListing: Sendable {
    private struct Level: Sendable {
        /// Nil for the root.
        let directory: RelativeKey?
        let entries: [DirectoryEntry]
        var next = 0

        var isDone: Bool { next == entries.count }
    }

    private static let pageSize = 1024

    private let options: FileListingOptions
    private let start: RelativeKey?
    /// The components of ``FileListingOptions/after``.
    private let after: [POSIXPath]
    /// Nil before the first page.
    private var levels: [Level]?

    init(_ directory: RelativeKey?, _ options: FileListingOptions) {
        start = directory
        self.options = options
        after = options.after.map { POSIXPath($0).components } ?? []
    }

    /// The next files and directories; none after the last.
    ///
    /// - Throws: `ENOENT` or `ENOTDIR` if there is no directory to list; directories below that disappear are left out.
    mutating func nextPage(in store: StoreDirectory) throws(FileSystemError) -> [StoredFile] {
        var levels: [Level]
        if let current = self.levels {
            levels = current
        } else {
            levels = [
                try store.withDirectory(start) { (directory) throws(FileSystemError) in
                    try level(start, directory, in: store)
                }
            ]
        }
        var page: [StoredFile] = []
        while page.count < Self.pageSize, let level = levels.popLast() {
            do throws(FileSystemError) {
                levels += try store.withDirectory(level.directory) { (directory) throws(FileSystemError) in
                    try list(level, directory, in: store, into: &page)
                }
            } catch  where error.errno.isDisappearance {
                continue
            }
        }
        self.levels = levels
        return page
    }

    /// The entries of an open directory; none if it is the root of another store.
    private func level(
        _ key: RelativeKey?, _ directory: Descriptor, in store: StoreDirectory
    ) throws(FileSystemError) -> Level {
        var entries = try store.fileSystem.entries(of: directory)
        if key != start, entries.contains(where: \.name.isStoreMarker) { entries = [] }
        if options.sorted || !after.isEmpty {
            entries.sort { $0.name.bytes.lexicographicallyPrecedes($1.name.bytes) }
        }
        return Level(directory: key, entries: entries)
    }

    /// Appends files until the page is full; returns what is still to come, the innermost directory last.
    private func list(
        _ level: Level, _ directory: Descriptor, in store: StoreDirectory, into page: inout [StoredFile]
    ) throws(FileSystemError) -> [Level] {
        var level = level
        while !level.isDone {
            guard page.count < Self.pageSize else { return [level] }
            let entry = level.entries[level.next]
            level.next += 1
            guard let key = RelativeKey(listed: level.directory?.path.appending(entry.name) ?? entry.name) else {
                continue
            }
            do throws(FileSystemError) {
                if isIncluded(key) {
                    let status = try store.fileSystem.status(entry.name, at: directory, followsSymbolicLinks: false)
                    let isForeign = try store.isUnreadable(entry.name, at: directory, status)
                    page.append(StoredFile(key: key.string, status, isForeign: isForeign))
                    guard !isForeign else { continue }
                }
                guard options.recursive, entry.type == .directory, mayContainIncluded(key) else { continue }
                let below = try store.fileSystem.withDirectory(
                    entry.name, at: directory, resolution: [.beneath, .noSymbolicLinks]
                ) { (below) throws(FileSystemError) in
                    try list(self.level(key, below, in: store), below, in: store, into: &page)
                }
                guard below.isEmpty else { return [level] + below }
            } catch  where error.errno.isDisappearance {
                continue
            } catch  where error.errno.isRefusal {
                guard try store.fileSystem.isOfAnotherUser(entry.name, at: directory) else { throw error }
            }
        }
        return []
    }

    // MARK: Selection

    private func isIncluded(_ key: RelativeKey) -> Bool {
        guard key.path.bytes.starts(with: options.prefix.utf8) else { return false }
        return after.isEmpty || after.lexicographicallyPrecedes(key.path.components, by: Self.precedes)
    }

    private func mayContainIncluded(_ key: RelativeKey) -> Bool {
        let path = key.path.bytes + "/".utf8
        guard path.starts(with: options.prefix.utf8) || options.prefix.utf8.starts(with: path) else { return false }
        guard !after.isEmpty else { return true }
        let components = key.path.components
        return after.starts(with: components) || after.lexicographicallyPrecedes(components, by: Self.precedes)
    }

    private static func precedes(_ first: POSIXPath, _ second: POSIXPath) -> Bool {
        first.bytes.lexicographicallyPrecedes(second.bytes)
    }
}

extension POSIXPath {
    fileprivate var components: [POSIXPath] {
        bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map { POSIXPath($0) }
    }
}

extension RelativeKey {
    /// The key of an entry; nil if another program gave it a name that is not a valid key.
    init?(listed path: POSIXPath) {
        guard let text = String(validating: path) else { return nil }
        do {
            try self.init(text)
        } catch {
            return nil
        }
    }
}
