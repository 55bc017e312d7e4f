package import SystemPackage

/// The use of a file in or outside a store.
package enum StoreFileRole: Hashable, Sendable {
    /// A file of the app, or of another program.
    case content
    /// The log of a key-value store.
    case log
    /// A sealed vault.
    case vault
    /// The key of vaults.
    case vaultKey
    /// An entry of a cache.
    case entry
    /// Unreadable data that a store has set aside.
    case quarantine
    /// Locks, journals, markers and other internal files.
    case bookkeeping
    /// A temporary file, or a directory that is being deleted; it may be in use.
    case temporary
    /// A file of the user whose move into a store was interrupted.
    case moved
    /// A link, pipe, socket or device.
    case special(FileType)
}

/// The roles of the files that a store keeps in its own directory.
package protocol StoreLayout {
    /// The kind of the store.
    static var kind: StoreKind { get }

    /// The role of a regular file; ``StoreFileRole/content`` if the store did not create it, or if it is the app's.
    ///
    /// - Parameters:
    ///   - name: The name of the file.
    ///   - start: Reads the first bytes of the file, at least 64 if it has so many; called only if the role depends on
    ///     them.
    /// - Returns: The role.
    /// - Throws: The error of `start`.
    static func role(
        of name: POSIXPath, startingWith start: () throws(FileSystemError) -> [UInt8]
    ) throws(FileSystemError) -> StoreFileRole
}

extension StoreFileRole {
    /// The role that a name has in the directory of every store with one file a key; nil for names that keys can have.
    package init?(ofInternalName name: POSIXPath) {
        if name.isLeftover {
            self = .temporary
        } else if name.isMovedFile {
            self = .moved
        } else if name.isStoreMarker {
            self = .bookkeeping
        } else {
            return nil
        }
    }
}

/// The layout of a file store.
package enum FilesLayout: StoreLayout {
    package static var kind: StoreKind { .files }

    package static func role(
        of name: POSIXPath, startingWith start: () throws(FileSystemError) -> [UInt8]
    ) throws(FileSystemError) -> StoreFileRole { StoreFileRole(ofInternalName: name) ?? .content }
}

/// The layout of a storage with one file a key.
package enum ValuesLayout: StoreLayout {
    package static var kind: StoreKind { .values }

    package static func role(
        of name: POSIXPath, startingWith start: () throws(FileSystemError) -> [UInt8]
    ) throws(FileSystemError) -> StoreFileRole { StoreFileRole(ofInternalName: name) ?? .content }
}

/// Walks a tree in the order of the bytes of its paths; a directory is at the place of its name with a slash, as in Git.
///
/// It locks nothing, follows no link and stays below its root. Files and directories that disappear meanwhile are left
/// out. Each directory is listed once, when it is entered, so a walk needs memory for the entries of the directories on
/// the present path.
package struct StoreWalk {
    /// One step of the walk.
    package enum Event: Sendable {
        /// A directory whose entries follow.
        case entered(Directory)
        /// Any entry that is not entered.
        case file(File)
        /// A directory or file that could not be read; the path of the error is relative to the root of the walk.
        case failed(FileSystemError)
    }

    /// A directory of the walk.
    package struct Directory: Hashable, Sendable {
        /// The path relative to the root of the walk, empty for the root itself.
        package let path: POSIXPath

        /// The stores that have marked this directory.
        package let owner: DirectoryOwner
    }

    /// A file of the walk, or a directory that a store is deleting.
    package struct File: Hashable, Sendable {
        /// The path relative to the root of the walk.
        package let path: POSIXPath

        package let status: FileStatus

        package let role: StoreFileRole

        /// The kind of the store that the file belongs to; nil for files of other programs. A log or vault of no kind
        /// only looks like one.
        package let kind: StoreKind?

        /// The nearest directory at or above the file that is the root of a store; nil if there is none.
        package let store: Directory?

        /// Whether the file may not be changed, because it is in a store that this version does not know.
        package var isInUnknownStore: Bool { store?.owner == .unknownStore }
    }

    private let root: ConfinedDirectory
    private let layouts: [any StoreLayout.Type]
    private let excluded: DirectoryIdentity?
    private var levels: [Level] = []
    private var isStarted = false

    /// A directory that was entered.
    private struct Level {
        let directory: Directory
        /// The nearest store at or above the directory.
        let store: Directory?
        /// The entries that are still to come, in descending order.
        var entries: [(entry: DirectoryEntry, status: FileStatus)]
    }

    /// Creates a walk of the tree below a directory.
    ///
    /// - Parameters:
    ///   - root: The directory.
    ///   - layouts: The layouts of the stores whose files are told apart.
    ///   - other: A directory that is left out with all that is below.
    package init(
        _ root: ConfinedDirectory, layouts: [any StoreLayout.Type], except other: DirectoryIdentity? = nil
    ) {
        self.root = root
        self.layouts = layouts
        excluded = other
    }

    private var fileSystem: any POSIXFileSystem { root.fileSystem }

    /// The next step; nil at the end.
    ///
    /// - Throws: ``FileSystemError`` if the root itself cannot be read; the walk has ended then.
    package mutating func next() throws(FileSystemError) -> Event? {
        guard isStarted else {
            isStarted = true
            guard let directory = try enter("", in: nil) else { return nil }
            return .entered(directory)
        }
        while var level = levels.popLast() {
            guard let (entry, status) = level.entries.popLast() else { continue }
            levels.append(level)
            let directory = level.directory.path
            let path = directory.isEmpty ? entry.name : directory.appending(entry.name)
            do throws(FileSystemError) {
                guard entry.type == .directory, !isTrash(entry.name, in: level.store) else {
                    return .file(try file(entry, at: path, status, in: level))
                }
                if let entered = try enter(path, in: level.store) { return .entered(entered) }
            } catch {
                if error.errno == .noSuchFileOrDirectory { continue }
                var error = error
                error.path = path
                return .failed(error)
            }
        }
        return nil
    }

    /// Lists a directory; nil if it is left out or was removed.
    private mutating func enter(_ path: POSIXPath, in above: Directory?) throws(FileSystemError) -> Directory? {
        let descriptor: Descriptor
        do throws(FileSystemError) {
            descriptor = try root.open(path.isEmpty ? "." : path)
        } catch {
            // The entry was removed or replaced by a file or a link.
            guard !path.isEmpty, error.errno.isDisappearance else { throw error }
            return nil
        }
        defer { fileSystem.discard(descriptor) }
        let identity = DirectoryIdentity(try fileSystem.status(of: .descriptor(descriptor)))
        guard identity != excluded else { return nil }
        let listed = try fileSystem.entries(of: descriptor)
        let directory = Directory(path: path, owner: try fileSystem.owner(of: descriptor, entries: listed))
        var entries: [(entry: DirectoryEntry, status: FileStatus)] = []
        for entry in listed {
            do throws(FileSystemError) {
                entries.append(
                    (entry, try fileSystem.status(entry.name, at: descriptor, followsSymbolicLinks: false)))
            } catch  where error.errno == .noSuchFileOrDirectory {
                continue
            }
        }
        entries.sort { Self.sortKey($1.entry).lexicographicallyPrecedes(Self.sortKey($0.entry)) }
        levels.append(Level(directory: directory, store: Self.store(directory, in: above), entries: entries))
        return directory
    }

    private static func sortKey(_ entry: DirectoryEntry) -> [UInt8] {
        entry.name.bytes + (entry.type == .directory ? [UInt8(ascii: "/")] : [])
    }

    /// The nearest store of the files in a directory: stores with nested keys, and unknown ones, include what is below.
    private static func store(_ directory: Directory, in above: Directory?) -> Directory? {
        guard directory.owner == .none else { return directory }
        guard let above else { return nil }
        switch above.owner {
        case .unknownStore: return above
        case .stores(let kinds): return kinds.contains(.files) || kinds.contains(.values) ? above : nil
        case .none: return nil
        }
    }

    private func isTrash(_ name: POSIXPath, in store: Directory?) -> Bool {
        guard let store, store.owner != .unknownStore else { return false }
        return name.isLeftover
    }

    private func file(
        _ entry: DirectoryEntry, at path: POSIXPath, _ status: FileStatus, in level: Level
    ) throws(FileSystemError) -> File {
        func file(_ role: StoreFileRole, _ kind: StoreKind? = nil) -> File {
            File(path: path, status: status, role: role, kind: kind, store: level.store)
        }
        if status.type == .directory { return file(.temporary) }
        guard status.type == .regular else { return file(.special(status.type)) }
        if entry.name.isMarkerOfKind { return file(.bookkeeping) }
        var start: [UInt8]?
        func read() throws(FileSystemError) -> [UInt8] {
            if let start { return start }
            let bytes = try root.withParent(of: path) { (parent, name) throws(FileSystemError) in
                let file = try fileSystem.openRegularFile(name, at: parent).descriptor
                return try fileSystem.closing(file) { () throws(FileSystemError) in
                    try fileSystem.readBytes(of: file, at: 0, count: 64)
                }
            }
            start = bytes
            return bytes
        }
        switch level.store?.owner {
        case .unknownStore: return file(.content)
        case .stores(let kinds):
            let own = layouts.filter { kinds.contains($0.kind) }
            for layout in own {
                let role = try layout.role(of: entry.name, startingWith: read)
                if role != .content { return file(role, layout.kind) }
            }
            // In a flat store, a file with another name is another program's.
            return file(.content, [StoreKind.files, .values].first(where: kinds.contains))
        case .some(.none), nil:
            for layout in layouts where layout.kind == .keyValue || layout.kind == .vaults {
                let role = try layout.role(of: entry.name, startingWith: read)
                if [.log, .vault, .vaultKey].contains(role) { return file(role) }
            }
            return file(.content)
        }
    }
}
