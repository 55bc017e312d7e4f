import ForgeStorage
import Foundation
import SystemPackage

/// The destination of files: a file store, or an ordinary directory.
struct FileTarget: Sendable {
    let root: POSIXPath
    /// Nil for an ordinary directory.
    let store: DiskFileStore?
    private let fileSystem = SystemFileSystem()
    private let flush = BulkFlush()

    init(_ home: Home) throws {
        root = try POSIXPath(home.url)
        store =
            home.scheme == .files
            ? DiskFileStore(root: home.url, options: FileStoreOptions(durability: BulkFlush.durability)) : nil
    }

    /// The reason why an item cannot be stored under its path; nil if it can.
    func refusal(of item: POSIXPath) -> String? {
        store == nil ? nil : item.keyRefusal
    }

    // MARK: Reading

    /// Opens a directory below the root, without following links.
    func openDirectory(_ path: POSIXPath) throws(FileSystemError) -> Descriptor {
        try open(path.isEmpty ? "." : path, options: [.directory])
    }

    /// Opens the entry with a name in an open directory; nil if it does not exist or cannot be opened. The write that
    /// follows reports why.
    func open(_ name: POSIXPath, in directory: Descriptor) -> Descriptor? {
        do throws(FileSystemError) {
            return try fileSystem.open(
                name, at: directory, .readOnly, options: [.noFollow, .nonBlocking], permissions: [])
        } catch {
            return nil
        }
    }

    /// Opens the entry at the path of an item without following links below the root; nil if that fails.
    func open(_ item: POSIXPath) -> Descriptor? {
        do throws(FileSystemError) {
            return try open(item, options: [.noFollow, .nonBlocking])
        } catch {
            return nil
        }
    }

    private func open(
        _ path: POSIXPath, options: FileDescriptor.OpenOptions
    ) throws(FileSystemError) -> Descriptor {
        try fileSystem.withDirectory(root) { (root) throws(FileSystemError) in
            try fileSystem.open(path, at: root, .readOnly, options: options, permissions: [], resolution: Self.below)
        }
    }

    /// The identity of the entry at the path of an item; nil if there is none.
    func identity(of item: POSIXPath) -> DirectoryIdentity? { Ancestry.identity(of: root.appending(item)) }

    // MARK: Writing

    /// Registers the file system of a directory for the flush at the end, if the directory exists.
    func includeInFlush(_ directory: POSIXPath) throws(FileSystemError) {
        do throws(FileSystemError) {
            try flush.include(directory.isEmpty ? root : root.appending(directory))
        } catch  where error.errno.isDisappearance {
            return
        }
    }

    /// Flushes the registered file systems. On return all copies are durable.
    func finish() throws {
        try flush.finish()
    }

    /// Creates a directory of an ordinary tree, and those above it, with the permissions of the source's if there is
    /// one.
    func prepare(_ directory: POSIXPath, like source: ConfinedDirectory?) throws(FileSystemError) {
        guard store == nil else { return }
        do throws(FileSystemError) {
            return fileSystem.discard(try openDirectory(directory))
        } catch  where error.errno == .noSuchFileOrDirectory {}
        guard !directory.isEmpty else {
            try fileSystem.createDirectories(
                root, at: .workingDirectory, permissions: .ownerReadWriteExecute, resolution: [])
            return
        }
        let (parent, name) = directory.splitLast()
        try prepare(parent, like: source)
        var permissions = FilePermissions.ownerReadWriteExecute
        do throws(FileSystemError) {
            if let source {
                permissions = try source.withDirectory(directory) { (directory) throws(FileSystemError) in
                    try fileSystem.status(of: .descriptor(directory)).permissions
                }
            }
        } catch _ {}  // Each copy from it reports that.
        let above = try openDirectory(parent)
        defer { fileSystem.discard(above) }
        do throws(FileSystemError) {
            try fileSystem.createDirectory(
                name, at: above, permissions: permissions.intersection(.all).union(.ownerReadWriteExecute))
        } catch  where error.errno == .fileExists {
            // Created by another process meanwhile. If it is not a directory, opening it reports that.
        }
    }

    /// Whether something else has the name of a directory or file of the target.
    static func isTaken(_ error: FileSystemError) -> Bool {
        [.notDirectory, .fileExists, .tooManySymbolicLinkLevels].contains(error.errno)
    }

    /// Copies a file to a name in an open directory of an ordinary tree, atomically; `isPresent` tells whether the name
    /// was found there.
    func replace(_ name: POSIXPath, in directory: Descriptor, by file: SourceFile, isPresent: Bool) throws {
        try PartialFile(of: file, in: directory, on: fileSystem).finish(file, as: name, isExpected: isPresent)
    }

    /// Whether an item is the partial file of a killed copy, which no process is writing.
    func isAbandoned(_ item: POSIXPath) -> Bool {
        guard store == nil, PartialFile.isName(item.splitLast().name), let file = open(item) else { return false }
        defer { fileSystem.discard(file) }
        do throws(FileSystemError) {
            try fileSystem.lock(file, .exclusive, waiting: false)
            return true
        } catch {
            return false
        }
    }

    func delete(_ item: POSIXPath) async throws {
        let (parent, name) = item.splitLast()
        try includeInFlush(parent)
        if let store { return try await store.delete(item.shown) }
        try fileSystem.withDirectory(root) { (root) throws(FileSystemError) in
            try withParent(parent, at: root) { (directory) throws(FileSystemError) in
                try fileSystem.unlink(name, at: directory)
            }
        }
    }

    private static let below: PathResolution = [.beneath, .noSymbolicLinks]

    /// Opens a directory below the root, without following links.
    private func withParent(
        _ parent: POSIXPath, at root: Descriptor, _ body: (Descriptor) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        guard !parent.isEmpty else { return try body(root) }
        try fileSystem.withDirectory(parent, at: root, resolution: Self.below, body)
    }
}

extension POSIXPath {
    /// The reason why the path is not the key of a file; nil if it is.
    var keyRefusal: String? {
        guard let key = String(validating: self) else { return "the name is not valid UTF-8" }
        do {
            _ = try RelativeKey(key)
            return nil
        } catch {
            return "\(error)"
        }
    }
}

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

    /// What a copy does with an entry.
    enum Carried {
        case copied
        /// A file that only the store itself needs.
        case omitted
        case skipped(String)
        case failed(String)
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

    /// The next entry that is not a directory, or a directory that is left out as the root of a store; nil after the
    /// last.
    ///
    /// - Throws: `FileSystemError` for a directory that cannot be read, with its path below the root; the next call
    ///   continues behind it. ``ContainsOther``.
    mutating func next() throws -> Entry? {
        while true {
            if let directory = pending {
                pending = nil
                if let skipped = try read(directory) { return skipped }
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

    /// Reads a directory; returns its entry if it is left out.
    private mutating func read(_ directory: POSIXPath?) throws -> Entry? {
        let listed: (entries: [DirectoryEntry], owner: StoreEvidence)?
        do throws(FileSystemError) {
            listed = try list(directory ?? ".")
        } catch {
            // Removed, or replaced by something else, since it was listed.
            if directory != nil, error.errno.isDisappearance { return nil }
            throw FileSystemError(error.operation, error.errno, path: directory ?? root.path)
        }
        guard let (found, owner) = listed else { throw ContainsOther() }
        if skipsStores, let directory, owner.isRoot {
            return Entry(path: directory, type: .directory, owner: owner, store: directory)
        }
        let entries = found.sorted { $1.name.bytes.lexicographicallyPrecedes($0.name.bytes) }
        let store = owner.isRoot ? directory ?? "" : levels.last?.store
        levels.append(Level(directory: directory, owner: owner, store: store, entries: entries))
        return nil
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

    /// The role of a regular file that ``next()`` has returned; `content` if it was removed since, which whatever
    /// follows finds again.
    func role(of entry: Entry) throws(FileSystemError) -> FileRole {
        do throws(FileSystemError) {
            return try entry.owner.role(of: entry.path.splitLast().name) { () throws(FileSystemError) in
                try start(of: entry.path)
            }
        } catch {
            guard error.errno.isDisappearance else {
                throw FileSystemError(error.operation, error.errno, path: root.path.appending(entry.path))
            }
            return .content
        }
    }

    /// The first 64 bytes of a file.
    private func start(of path: POSIXPath) throws(FileSystemError) -> [UInt8] {
        try root.withParent(of: path) { (directory, name) throws(FileSystemError) in
            let file = try root.fileSystem.openRegularFile(name, at: directory).descriptor
            return try root.fileSystem.closing(file) { () throws(FileSystemError) in
                try root.fileSystem.readBytes(of: file, at: 0, count: 64)
            }
        }
    }
}

extension FileWalk.Entry {
    /// What a copy does with the entry of a file store, or of an ordinary directory. Everything that is not copied has a
    /// reason, unless it is the store's own.
    func carried(fromStore isStore: Bool) throws(FileSystemError) -> FileWalk.Carried {
        guard isStore else { return type == .regular ? .copied : .skipped(type.text) }
        if type == .directory { return .skipped("the root of another store: \(owner.text ?? "")") }
        let name = path.splitLast().name
        if owner.isTemporary(name) { return .omitted }
        switch try owner.role(of: name, startingWith: { () throws(FileSystemError) in [] }) {
        case .marker, .bookkeeping, .temporary, .log: return .omitted
        case .moved: return .skipped("a move into the store that goes on or was interrupted")
        case .content, .vault, .vaultKey, .image, .quarantine: break
        }
        guard type == .regular else { return .skipped(type.text) }
        return path.keyRefusal.map { .failed($0) } ?? .copied
    }
}

/// A directory and its ancestors, identified by device and inode, so that links and bind mounts do not hide them.
struct Ancestry {
    /// The directory; nil if it does not exist.
    private let directory: DirectoryIdentity?
    /// The directory, or the nearest one on its path that exists, and those above it.
    private let line: [DirectoryIdentity]

    /// - Parameter path: An absolute path.
    init(of path: POSIXPath) {
        directory = Self.identity(of: path)
        var current = path
        var line: [DirectoryIdentity] = []
        while Self.identity(of: current) == nil, !current.isEmpty { current = current.splitLast().parent }
        while let identity = Self.identity(of: current), identity != line.last {
            line.append(identity)
            current = current.appending("..")
        }
        self.line = line
    }

    /// Whether another directory is this one or below it.
    func contains(_ other: Ancestry) -> Bool { directory.map(other.line.contains) ?? false }

    /// The identity of a directory; nil if it cannot be found.
    static func identity(of path: POSIXPath) -> DirectoryIdentity? {
        do throws(FileSystemError) {
            return DirectoryIdentity(try SystemFileSystem().status(path))
        } catch {
            return nil
        }
    }
}
