import SystemPackage

/// Walks a tree in the order of the bytes of its paths; a directory is at the place of its name with a slash, as in
/// Git, and the markers of a store come before all other entries of its root, so that a copy has them first.
///
/// It locks nothing, follows no link and stays below its root. Files that disappear meanwhile are left out, and so are
/// directories that were removed. One that may have been moved instead, to a place that the walk has passed, is reported
/// at the end. A file that is moved to such a place is not noticed, nor is a directory that was not listed before.
///
/// Each directory is listed once, when it is entered, so a walk needs memory for the entries of the directories on the
/// present path, and one descriptor. If a directory has disappeared, all directories are listed again at the end, which
/// needs memory for the identities of all.
package struct StoreWalk {
    /// One step of the walk.
    package enum Event: Sendable {
        /// A directory whose entries follow, unless ``StoreWalk/leave()`` is called now.
        case entered(Entry)
        /// Any entry that is not entered.
        case file(Entry)
        /// The directory that the walk leaves out.
        case other(POSIXPath)
        /// A directory or file that could not be read; the path of the error is relative to the root of the walk. With
        /// an error that is a disappearance, a directory may have been moved since it was named or listed, or another one
        /// is at its path, and what is left of it is not walked.
        case failed(FileSystemError)
    }

    /// A file or directory of the walk.
    package struct Entry: Hashable, Sendable {
        /// The path relative to the root of the walk, empty for the root itself.
        package let path: POSIXPath

        package let status: FileStatus

        /// The stores that it belongs to: of a directory that was entered its own scope, of another entry that of its
        /// directory.
        package let scope: StoreScope

        /// The path of the nearest directory at or above it, below the root of the walk, that is the root of a store;
        /// nil if there is none.
        package let root: POSIXPath?

        /// The directory in which it was listed; nil for one that was entered.
        package let parent: DirectoryIdentity?
    }

    private let root: ConfinedDirectory
    private let layouts: [any StoreLayout.Type]
    private let excluded: DirectoryIdentity?
    private let takesDamagedForWhole: Bool
    private var levels: [Level] = []
    private var isStarted = false
    /// The directory that is open at the moment.
    private var current: OpenDirectory?
    /// The root as it was listed.
    private var rootIdentity: DirectoryIdentity?
    /// The directories that were not found at their turn, until the end of the walk.
    private var missing: [Missing] = []
    /// The errors of those that were not removed and are still to be reported, the last one first.
    private var lost: [FileSystemError] = []
    /// Whether each directory had the inode number that was listed for it. File systems that store no numbers, such as
    /// FAT, may list another one each time.
    private var hasListedNumbers = true

    /// A directory that was entered.
    private struct Level {
        let directory: Entry
        /// The entries that are still to come, in descending order.
        var entries: [DirectoryEntry]
    }

    /// A directory that was not found at its turn.
    private struct Missing {
        let identity: DirectoryIdentity
        /// The directories listed in it whose turn had not come: one may have been moved before this one was removed.
        var unread: [DirectoryIdentity] = []
        let error: FileSystemError
    }

    /// An open directory, closed with the last copy of the walk that uses it.
    private final class OpenDirectory: Sendable {
        let path: POSIXPath
        let descriptor: Descriptor
        private let fileSystem: any POSIXFileSystem

        init(_ path: POSIXPath, in root: ConfinedDirectory) throws(FileSystemError) {
            self.path = path
            fileSystem = root.fileSystem
            descriptor = try root.open(path.isEmpty ? "." : path)
        }

        deinit {
            fileSystem.discard(descriptor)
        }
    }

    /// Creates a walk of the tree below a directory.
    ///
    /// - Parameters:
    ///   - root: The directory.
    ///   - layouts: The layouts of the stores whose files get roles.
    ///   - other: A directory that is not entered, and reported as ``Event/other(_:)``.
    ///   - takesDamagedForWhole: Whether damaged markers of stores are taken for whole ones.
    package init(
        _ root: ConfinedDirectory, layouts: [any StoreLayout.Type], except other: DirectoryIdentity? = nil,
        takesDamagedForWhole: Bool = false
    ) {
        self.root = root
        self.layouts = layouts
        excluded = other
        self.takesDamagedForWhole = takesDamagedForWhole
    }

    private var fileSystem: any POSIXFileSystem { root.fileSystem }

    /// The directory of the file that ``next()`` has returned, open as long as this is kept. Its identity cannot change
    /// meanwhile, as that of a closed one does where inode numbers are not stored, such as on FAT.
    package var openDirectory: (any Sendable)? { current }

    /// The next step; nil at the end.
    ///
    /// - Throws: ``FileSystemError`` if the root itself cannot be read; the walk has ended then.
    package mutating func next() throws(FileSystemError) -> Event? {
        guard isStarted else {
            isStarted = true
            return try enter("")
        }
        while let index = levels.indices.last {
            guard let entry = levels[index].entries.popLast() else {
                levels.removeLast()
                continue
            }
            let directory = levels[index].directory
            let path = directory.path.isEmpty ? entry.name : directory.path.appending(entry.name)
            let parent: Descriptor
            do throws(FileSystemError) {
                parent = try reopen(directory)
            } catch {
                let rest = levels.removeLast().entries + [entry]
                guard !directory.path.isEmpty else { throw error }
                let unread = rest.filter { $0.type == .directory }.map { $0.identity(in: directory.status) }
                let event = failure(
                    Missing(
                        identity: DirectoryIdentity(directory.status), unread: unread,
                        error: error.naming(directory.path)))
                if let event { return event }
                continue
            }
            guard entry.type != .directory || directory.scope.isTemporary(entry.name) else {
                let identity = entry.identity(in: directory.status)
                do throws(FileSystemError) {
                    return try enter(path, listed: identity)
                } catch {
                    if let event = failure(Missing(identity: identity, error: error.naming(path))) { return event }
                    continue
                }
            }
            do throws(FileSystemError) {
                let status = try fileSystem.status(entry.name, at: parent, followsSymbolicLinks: false)
                return .file(
                    Entry(
                        path: path, status: status, scope: directory.scope, root: directory.root,
                        parent: DirectoryIdentity(directory.status)))
            } catch {
                guard error.errno.isDisappearance else { return .failed(error.naming(path)) }
            }
        }
        current = nil
        if !missing.isEmpty {
            lost = notRemoved().reversed()
            missing = []
        }
        return lost.popLast().map { .failed($0) }
    }

    /// Leaves the directory that was entered last, without its entries.
    package mutating func leave() {
        levels.removeLast()
    }

    /// Lists a directory; `listed` is its identity by the listing of the one above.
    private mutating func enter(
        _ path: POSIXPath, listed: DirectoryIdentity? = nil
    ) throws(FileSystemError) -> Event {
        let descriptor = try open(path).descriptor
        let status = try fileSystem.status(of: .descriptor(descriptor))
        let identity = DirectoryIdentity(status)
        if let listed {
            if !identity.hasNumber(of: listed) { hasListedNumbers = false }
        } else {
            rootIdentity = identity
        }
        guard identity != excluded else { return .other(path) }
        var entries = try fileSystem.entries(of: descriptor)
        let above = levels.last?.directory
        let scope =
            if let above {
                try StoreScope(
                    of: descriptor, entries: entries, below: above.scope, on: fileSystem,
                    takesDamagedForWhole: takesDamagedForWhole)
            } else {
                try StoreScope(
                    of: descriptor, entries: entries, on: fileSystem, takesDamagedForWhole: takesDamagedForWhole)
            }
        entries.sort { Self.isBefore($1, $0) }
        let directory = Entry(
            path: path, status: status, scope: scope, root: scope.isRoot ? path : above?.root, parent: nil)
        levels.append(Level(directory: directory, entries: entries))
        return .entered(directory)
    }

    private mutating func open(_ path: POSIXPath) throws(FileSystemError) -> OpenDirectory {
        let new = try OpenDirectory(path, in: root)
        current = new
        return new
    }

    /// Opens a directory that was entered, unless it is the open one.
    ///
    /// - Throws: ``FileSystemError``; `ENOENT` if another directory has taken its path.
    private mutating func reopen(_ directory: Entry) throws(FileSystemError) -> Descriptor {
        if let current, current.path == directory.path { return current.descriptor }
        let descriptor = try open(directory.path).descriptor
        let status = try fileSystem.status(of: .descriptor(descriptor))
        guard DirectoryIdentity(status) == DirectoryIdentity(directory.status) else {
            current = nil
            throw FileSystemError(.open, .noSuchFileOrDirectory)
        }
        return descriptor
    }

    /// Whether an entry comes before another one; the name of a directory is compared with a slash behind it.
    private static func isBefore(_ first: DirectoryEntry, _ second: DirectoryEntry) -> Bool {
        let (isMarker, isOtherMarker) = (first.name.isMarkerOfKind, second.name.isMarkerOfKind)
        guard isMarker == isOtherMarker else { return isMarker }
        let slash = UInt8(ascii: "/")
        let (left, right) = (first.name.bytes, second.name.bytes)
        func byte(_ bytes: ArraySlice<UInt8>, _ index: Int, _ type: FileType) -> UInt8? {
            if index < bytes.count { return bytes[bytes.startIndex + index] }
            return index == bytes.count && type == .directory ? slash : nil
        }
        var index = 0
        while let next = byte(right, index, second.type) {
            guard let own = byte(left, index, first.type) else { return true }
            if own != next { return own < next }
            index += 1
        }
        return false
    }

    // MARK: Since then

    /// The event for a directory that could not be entered or read on; nil if it is missing, until the end of the walk.
    private mutating func failure(_ directory: Missing) -> Event? {
        guard directory.error.errno.isDisappearance else { return .failed(directory.error) }
        missing.append(directory)
        return nil
    }

    /// Adds a directory whose files ``next()`` has returned, and which was not found later, to those that are reported at
    /// the end unless they were removed. After the end, ``next()`` reports it.
    package mutating func miss(_ path: POSIXPath, _ identity: DirectoryIdentity) {
        let error = FileSystemError(.open, .noSuchFileOrDirectory, path: path)
        missing.append(Missing(identity: identity, error: error))
    }

    /// The errors of the missing directories that may be elsewhere.
    ///
    /// All directories are listed again. A missing one was removed if nothing is at its path, and if neither its inode
    /// number nor that of an unread directory in it is found. It counts as moved if its device is not found, because a file
    /// system may have been unmounted. All count as moved if the root is another directory, or if one cannot be listed: it
    /// may have disappeared with missing ones in it.
    private func notRemoved() -> [FileSystemError] {
        let all = missing.map(\.error)
        guard hasListedNumbers else { return all }
        var found: Set<DirectoryIdentity> = []
        // The directories that are still to be listed; the root has no listing.
        var pending: [(path: POSIXPath, listed: DirectoryIdentity?)] = [("", nil)]
        do throws(FileSystemError) {
            while let (path, listed) = pending.popLast() {
                let directory = try root.open(path.isEmpty ? "." : path)
                defer { fileSystem.discard(directory) }
                let status = try fileSystem.status(of: .descriptor(directory))
                let identity = DirectoryIdentity(status)
                let isSame = if let listed { identity.hasNumber(of: listed) } else { identity == rootIdentity }
                guard isSame else { return all }
                // A listing has other numbers than a status where it crosses subvolumes (Btrfs).
                found.insert(identity)
                for entry in try fileSystem.entries(of: directory) where entry.type == .directory {
                    let below = entry.identity(in: status)
                    found.insert(below)
                    pending.append((path.appending(entry.name), below))
                }
            }
        } catch {
            return all
        }
        let devices = Set(found.map(\.device))
        return missing.filter { directory in
            !devices.contains(directory.identity.device) || found.contains(directory.identity)
                || directory.unread.contains { found.contains($0) } || isTaken(directory.error.path ?? "")
        }.map(\.error)
    }

    /// Whether the path of a missing directory leads to an entry, or cannot be looked up.
    private func isTaken(_ path: POSIXPath) -> Bool {
        do throws(FileSystemError) {
            let (directory, name) = try root.openParent(of: path)
            defer { fileSystem.discard(directory) }
            return try fileSystem.exists(name, at: directory, followsSymbolicLinks: false)
        } catch {
            return !error.errno.isDisappearance
        }
    }

    /// Whether a file that ``next()`` has returned was removed since. False if an entry has its name, and if its whole
    /// directory is not at its path any more: the file may be elsewhere then.
    package func isRemoved(_ file: Entry) throws(FileSystemError) -> Bool {
        do {
            let (directory, name) = try root.openParent(of: file.path)
            defer { fileSystem.discard(directory) }
            guard DirectoryIdentity(try fileSystem.status(of: .descriptor(directory))) == file.parent else {
                return false
            }
            return try !fileSystem.exists(name, at: directory, followsSymbolicLinks: false)
        } catch  where error.errno.isDisappearance {
            return false
        }
    }

    // MARK: Roles

    /// The role of an entry that ``next()`` has returned; ``FileRole/content`` if it was removed since.
    ///
    /// - Parameters:
    ///   - entry: The entry.
    ///   - scope: The stores that it is taken to belong to; nil for those that it does.
    /// - Returns: The role.
    /// - Throws: ``FileSystemError`` if the role depends on the content, and that cannot be read.
    package func role(of entry: Entry, in scope: StoreScope? = nil) throws(FileSystemError) -> FileRole {
        let (parent, name) = entry.path.splitLast()
        let scope = scope ?? entry.scope
        if entry.status.type == .directory, scope.isTemporary(name) { return .temporary }
        guard entry.status.type == .regular else { return .special(entry.status.type) }
        var start: [UInt8]?
        do throws(FileSystemError) {
            return try scope.role(of: name, among: layouts) { () throws(FileSystemError) in
                if let start { return start }
                let bytes: [UInt8]
                if let current, current.path == parent {
                    bytes = try fileSystem.start(of: name, at: current.descriptor)
                } else {
                    let (directory, name) = try root.openParent(of: entry.path)
                    defer { fileSystem.discard(directory) }
                    bytes = try fileSystem.start(of: name, at: directory)
                }
                start = bytes
                return bytes
            }
        } catch {
            guard !error.errno.isDisappearance, error.errno != .notSupported else { return .content }
            throw error.naming(entry.path)
        }
    }
}

extension DirectoryEntry {
    /// The identity by its listing in a directory.
    fileprivate func identity(in directory: FileStatus) -> DirectoryIdentity {
        DirectoryIdentity(inode: inode, device: directory.device)
    }
}

extension DirectoryIdentity {
    /// Whether an open directory has the inode number that was listed for it. If it is on another device, a file system
    /// is mounted there, and the listing says nothing about it.
    fileprivate func hasNumber(of listed: DirectoryIdentity) -> Bool {
        listed.device != device || listed.inode == inode
    }
}

extension FileSystemError {
    /// The error with the path of an entry relative to the root of its walk.
    fileprivate func naming(_ path: POSIXPath) -> FileSystemError {
        var error = self
        error.path = path
        return error
    }
}

extension POSIXFileSystem {
    /// The first 64 bytes of a regular file, which decide its role.
    package func start(of name: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> [UInt8] {
        let file = try openRegularFile(name, at: directory).descriptor
        return try closing(file) { () throws(FileSystemError) in try readBytes(of: file, at: 0, count: 64) }
    }
}
