import ForgeFileSystem
import Synchronization
import SystemPackage

/// How a tree is listed.
public struct FileListingOptions: Hashable, Sendable {
    /// Whether the directories below are listed too, each before its content.
    public var recursive: Bool

    /// Whether the files come in the order of their keys, compared component by component by bytes. Otherwise the order
    /// is that of the file system, which costs nothing.
    public var sorted: Bool

    /// Only files and directories whose keys begin with this text.
    public var prefix: String

    /// Only files and directories after this key in the sorted order, to continue an earlier listing; it need not
    /// exist. Implies ``sorted``.
    public var after: String?

    /// Creates options with default values.
    public init(recursive: Bool = true, sorted: Bool = false, prefix: String = "", after: String? = nil) {
        self.recursive = recursive
        self.sorted = sorted
        self.prefix = prefix
        self.after = after
    }

    public static func == (first: FileListingOptions, second: FileListingOptions) -> Bool {
        first.recursive == second.recursive && first.sorted == second.sorted
            && first.prefix.hasSameBytes(as: second.prefix)
            && first.after.map { Array($0.utf8) } == second.after.map { Array($0.utf8) }
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(recursive)
        hasher.combine(sorted)
        hasher.combine(Array(prefix.utf8))
        hasher.combine(after.map { Array($0.utf8) })
    }
}

/// The files and directories of a store as a sequence, read in pages as the loop asks for them.
public struct FileListing: AsyncSequence, Sendable {
    /// Returns the next page of a listing; nil after the last.
    public typealias NextPage = () async throws -> [StoredFile]?

    private let begin: @Sendable () -> NextPage

    /// Creates a listing.
    ///
    /// - Parameter begin: Starts a listing; called by every iteration.
    public init(_ begin: @escaping @Sendable () -> NextPage) {
        self.begin = begin
    }

    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let nextPage: NextPage
        private var page: [StoredFile] = []
        private var position = 0

        fileprivate init(nextPage: @escaping NextPage) {
            self.nextPage = nextPage
        }

        public mutating func next() async throws -> StoredFile? {
            while position == page.count {
                guard let next = try await nextPage() else { return nil }
                page = next
                position = 0
            }
            defer { position += 1 }
            return page[position]
        }
    }

    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(nextPage: begin())
    }
}

/// Listings page by page.
extension PlainFileStore {
    public func files(in directory: String, _ options: FileListingOptions) -> FileListing {
        FileListing { [self] in
            var listing: TreeListing?
            return { [self] in
                let current =
                    try listing
                    ?? TreeListing(
                        directory.isEmpty ? nil : RelativeKey(checking: directory, for: .list), options)
                let (page, next) = try await run(.list, directory) { [self] cancellation in
                    try cancellation.check()
                    var next = current
                    return (try nextPage(of: &next, in: directory), next)
                }
                listing = next
                return page.isEmpty ? nil : page
            }
        }
    }

    private func nextPage(
        of listing: inout TreeListing, in directory: String
    ) throws(FileStoreError) -> [StoredFile] {
        let page = try attemptIfExists(.list, directory) { (store) throws(FileSystemError) in
            try listing.nextPage(in: store)
        }
        if let page { return page }
        // The store is empty until its root exists.
        guard directory.isEmpty else { throw FileStoreError(.notFound, .list, key: directory) }
        return []
    }
}

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
                let opened = try store.fileSystem.openDirectory(
                    entry.name, at: directory, resolution: [.beneath, .noSymbolicLinks])
                defer { store.fileSystem.discard(opened) }
                let below = try list(self.level(key, opened, in: store), opened, in: store, into: &page)
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

/// The sum of the sizes of a store's files, remembered for each directory.
///
/// Creating, replacing and removing a file changes the status-change time (ctime) of its directory, which no program can
/// set, unlike the modification time, which `rsync -a` and `tar` restore. So only directories whose time has changed are
/// listed again, whichever process changed them. A write to a file in place does not change it.
///
/// File systems record times in steps of up to two seconds. A directory that was changed that recently before it was
/// listed may change again without a new time, so its sum is not remembered (as in Git's index, "racy" entries), unless
/// the file system gives every change a time of its own (`preciseTime` is nil).
final class TreeTotals: Sendable {
    private struct Total: Sendable {
        let inode: UInt64
        let device: UInt64
        let changed: FileTime
        let sizeInBytes: Int64
        let subdirectories: [POSIXPath]
    }

    private static let timeStep: Int64 = 2

    /// By the path from the root, which is empty for the root itself.
    private let totals = Mutex<[POSIXPath: Total]>([:])

    /// The sum of the sizes of all files, clamped to the maximum.
    ///
    /// - Complexity: O(directories + entries of changed directories) calls of the file system.
    func sizeInBytes(in store: StoreDirectory) throws(FileSystemError) -> Int64 {
        var walk = Walk(fileSystem: store.fileSystem, known: totals.withLock { $0 })
        try store.withDirectory(nil) { (root) throws(FileSystemError) in try walk.visit(root, POSIXPath("")) }
        totals.withLock { $0 = walk.remembered }
        return walk.sizeInBytes
    }

    private struct Walk {
        let fileSystem: any POSIXFileSystem
        let known: [POSIXPath: Total]
        var remembered: [POSIXPath: Total] = [:]
        var sizeInBytes: Int64 = 0

        mutating func visit(_ directory: Descriptor, _ path: POSIXPath) throws(FileSystemError) {
            let status = try fileSystem.status(of: .descriptor(directory))
            let total: Total
            if let known = known[path], known.inode == status.inode, known.device == status.device,
                known.changed == status.changed
            {
                total = known
                remembered[path] = total
            } else {
                let now = fileSystem.preciseTime
                total = try list(directory, path, status)
                let isSettled = now.map { $0.seconds - status.changed.seconds > TreeTotals.timeStep } ?? true
                if isSettled { remembered[path] = total }
            }
            let (sum, overflow) = sizeInBytes.addingReportingOverflow(total.sizeInBytes)
            sizeInBytes = overflow ? .max : sum
            for name in total.subdirectories {
                do throws(FileSystemError) {
                    let below = try fileSystem.openDirectory(
                        name, at: directory, resolution: [.beneath, .noSymbolicLinks])
                    defer { fileSystem.discard(below) }
                    try visit(below, path.isEmpty ? name : path.appending(name))
                } catch  where error.errno.isDisappearance {
                    continue
                } catch  where error.errno.isRefusal {
                    guard try fileSystem.isOfAnotherUser(name, at: directory) else { throw error }
                }
            }
        }

        private func list(
            _ directory: Descriptor, _ path: POSIXPath, _ status: FileStatus
        ) throws(FileSystemError) -> Total {
            var entries = try fileSystem.entries(of: directory)
            // The root of another store has no files of this one.
            if !path.isEmpty, entries.contains(where: \.name.isStoreMarker) { entries = [] }
            var size: Int64 = 0
            var subdirectories: [POSIXPath] = []
            for entry in entries where (path.isEmpty ? entry.name : path.appending(entry.name)).isKey {
                guard entry.type != .directory else {
                    subdirectories.append(entry.name)
                    continue
                }
                do throws(FileSystemError) {
                    let status = try fileSystem.status(entry.name, at: directory, followsSymbolicLinks: false)
                    guard status.type == .regular else { continue }
                    let (sum, overflow) = size.addingReportingOverflow(status.sizeInBytes)
                    size = overflow ? .max : sum
                } catch  where error.errno.isDisappearance {
                    continue
                }
            }
            return Total(
                inode: status.inode, device: status.device, changed: status.changed, sizeInBytes: size,
                subdirectories: subdirectories)
        }
    }
}
