package import SystemPackage

/// The use of a file in or outside a store, which decides what a tool may do with it.
package enum FileRole: Hashable, Sendable {
    /// A file of the app, or of another program: read, listed and saved like any other, never changed.
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
    /// A marker of a store; a backup keeps it.
    case marker
    /// Locks, journals and other files that only running processes need.
    case bookkeeping
    /// A temporary file that a store has recorded, or a directory that it is deleting; it may be in use.
    case temporary
    /// A file of the user whose move into a store was interrupted, perhaps the only copy.
    case moved
    /// A link, pipe, socket or device, or a directory that is not entered.
    case special(FileType)
}

/// The roles of the files that a store keeps in its own directory.
package protocol StoreLayout {
    /// The kind of the store.
    static var kind: StoreKind { get }

    /// The role of a regular file; ``FileRole/content`` if the store did not create it, or if it is the app's.
    ///
    /// - Parameters:
    ///   - name: The name of the file.
    ///   - start: Reads the first bytes of the file, at least 64 if it has so many; called only if the role depends on
    ///     them.
    /// - Returns: The role.
    /// - Throws: The error of `start`.
    static func role(
        of name: POSIXPath, startingWith start: () throws(FileSystemError) -> [UInt8]
    ) throws(FileSystemError) -> FileRole
}

extension FileRole {
    /// The role that a name has in the directory of every store with one file per key; nil for names that keys can have.
    package init?(ofInternalName name: POSIXPath) {
        if name.isMovedFile {
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
    ) throws(FileSystemError) -> FileRole { FileRole(ofInternalName: name) ?? .content }
}

/// The layout of a storage with one file per key.
package enum ValuesLayout: StoreLayout {
    package static var kind: StoreKind { .values }

    package static func role(
        of name: POSIXPath, startingWith start: () throws(FileSystemError) -> [UInt8]
    ) throws(FileSystemError) -> FileRole { FileRole(ofInternalName: name) ?? .content }
}

/// The stores that the files of a directory belong to, which decide the roles of the files.
///
/// A name proves nothing: an app may store a file under every name that is a valid key. Below the root of a file store or
/// of a storage everything is content, until a directory is the root of another store. In a directory of an unknown
/// store, and below, everything is content that may not be changed.
package struct StoreScope: Hashable, Sendable {
    /// The stores that have marked this directory itself.
    package let owner: DirectoryOwner

    /// The owner of the directory; if there is none, that of the nearest root above whose store has nested keys, or is
    /// not known.
    package let store: DirectoryOwner

    /// The parts of the names of temporary files that tell their owners, according to the journals of the store.
    private let temporaryIDs: Set<POSIXPath>

    /// The scope of a directory in no store.
    package static let outside = StoreScope(owner: .none, store: .none, temporaryIDs: [])

    private init(owner: DirectoryOwner, store: DirectoryOwner, temporaryIDs: Set<POSIXPath>) {
        self.owner = owner
        self.store = store
        self.temporaryIDs = temporaryIDs
    }

    /// Looks for stores in an open directory; creates, changes and locks nothing.
    ///
    /// - Parameters:
    ///   - directory: The directory.
    ///   - entries: Its entries, if the caller has listed them.
    ///   - above: The scope of the directory above.
    ///   - fileSystem: Its file system.
    ///   - takesDamagedForWhole: Whether damaged markers are taken for whole ones.
    /// - Throws: The error of reading the directory or a journal.
    package init(
        of directory: Descriptor, entries: [DirectoryEntry]? = nil, below above: StoreScope,
        on fileSystem: any POSIXFileSystem, takesDamagedForWhole: Bool = false
    ) throws(FileSystemError) {
        owner = try fileSystem.owner(of: directory, entries: entries, takesDamagedForWhole: takesDamagedForWhole)
        switch owner {
        case .unknownStore:
            (store, temporaryIDs) = (owner, [])
        case .stores(let kinds):
            store = owner
            temporaryIDs =
                kinds.isDisjoint(with: [.files, .values, .images, .cache])
                ? [] : Set(try TemporaryFileJournalFile.allIDs(at: directory, on: fileSystem))
        case .none where above.store == .unknownStore || above.store.hasNestedKeys:
            (store, temporaryIDs) = (above.store, above.temporaryIDs)
        case .none:
            (store, temporaryIDs) = (.none, [])
        }
    }

    /// Looks for stores in an open directory, where damaged markers may be taken for whole ones, and in those above it.
    ///
    /// - Throws: The error of reading the directory. Directories above that cannot be read are taken for ordinary ones.
    package init(
        of directory: Descriptor, entries: [DirectoryEntry]? = nil, on fileSystem: any POSIXFileSystem,
        takesDamagedForWhole: Bool = false
    ) throws(FileSystemError) {
        let alone = try StoreScope(
            of: directory, entries: entries, below: .outside, on: fileSystem, takesDamagedForWhole: takesDamagedForWhole
        )
        self =
            alone.isRoot
            ? alone
            : try StoreScope(
                of: directory, entries: entries, below: Self.nearestRoot(above: directory, on: fileSystem),
                on: fileSystem)
    }

    /// Looks for stores in the directory at a path, where damaged markers may be taken for whole ones, and in those above
    /// it; links on the path are followed.
    package init(
        at path: POSIXPath, on fileSystem: any POSIXFileSystem, takesDamagedForWhole: Bool = false
    ) throws(FileSystemError) {
        let directory = try fileSystem.open(path, .readOnly, options: [.directory])
        defer { fileSystem.discard(directory) }
        try self.init(of: directory, on: fileSystem, takesDamagedForWhole: takesDamagedForWhole)
    }

    /// The scope of the nearest directory above an open one that a store has marked; ``outside`` if there is none.
    private static func nearestRoot(above directory: Descriptor, on fileSystem: any POSIXFileSystem) -> StoreScope {
        fileSystem.firstAbove(directory) { (above) throws(FileSystemError) in
            let scope = try StoreScope(of: above, below: .outside, on: fileSystem)
            return scope.isRoot ? scope : nil
        } ?? .outside
    }

    /// Whether the directory is the root of a store, known or not.
    package var isRoot: Bool { owner != .none }

    /// Whether nothing here may be changed, because it is in a store that this version does not know.
    package var isUnknown: Bool { store == .unknownStore }

    /// Whether a name is that of a temporary file or of trash which the store has recorded.
    package func isTemporary(_ name: POSIXPath) -> Bool {
        guard name.isLeftover, let id = name.ownerID else { return false }
        return temporaryIDs.contains(id)
    }

    /// The role of a regular file in the directory.
    ///
    /// - Parameters:
    ///   - name: Its name.
    ///   - layouts: The layouts of the stores whose files get roles.
    ///   - start: Reads the first bytes of the file; called only if the role depends on them.
    /// - Returns: The role.
    /// - Throws: The error of `start`.
    package func role(
        of name: POSIXPath, among layouts: [any StoreLayout.Type],
        startingWith start: () throws(FileSystemError) -> [UInt8]
    ) throws(FileSystemError) -> FileRole {
        switch store {
        case .unknownStore: return .content
        case .stores(let kinds):
            if isTemporary(name) { return .temporary }
            if isRoot {
                if name.isMarkerOfKind { return .marker }
                if kinds.contains(where: { StoreMarker.temporaryName(of: $0) == name }) { return .temporary }
            }
            for layout in layouts where isKept(layout.kind, of: kinds) {
                let role = try layout.role(of: name, startingWith: start)
                if role != .content { return role }
            }
            // In a store without nested keys, a file with another name is another program's.
            return .content
        case .none:
            for layout in layouts where layout.kind == .keyValue || layout.kind == .vaults {
                let role = try layout.role(of: name, startingWith: start)
                if [.log, .vault, .vaultKey, .quarantine].contains(role) { return role }
            }
            return .content
        }
    }

    /// Whether files of a kind of store can be in this directory. Only stores with nested keys keep files below their
    /// root, and there a file with the name of a cache's entry is the app's.
    private func isKept(_ kind: StoreKind, of kinds: Set<StoreKind>) -> Bool {
        guard kinds.contains(kind) else { return false }
        switch kind {
        case .files, .values: return true
        case .keyValue, .vaults: return isRoot
        case .images, .cache: return isRoot && !store.hasNestedKeys
        }
    }
}

extension DirectoryOwner {
    /// Whether the keys of a store are paths, so that directories below its root belong to it.
    package var hasNestedKeys: Bool { contains(.files) || contains(.values) }
}

extension POSIXFileSystem {
    /// The first result that `body` has for a directory above an open one, from the nearest one on; nil if it has none.
    /// A directory for which `body` throws is passed over; above one that cannot be opened, nothing is looked for.
    package func firstAbove<Result>(
        _ directory: Descriptor, _ body: (_ above: Descriptor) throws(FileSystemError) -> Result?
    ) -> Result? {
        var current = directory
        defer { if current != directory { discard(current) } }
        do throws(FileSystemError) {
            var identity = DirectoryIdentity(try status(of: .descriptor(directory)))
            while true {
                let above = try open("..", at: current, .readOnly, options: [.directory])
                if current != directory { discard(current) }
                current = above
                let next = DirectoryIdentity(try status(of: .descriptor(above)))
                guard next != identity else { return nil }
                identity = next
                do throws(FileSystemError) {
                    if let result = try body(above) { return result }
                } catch {
                    continue
                }
            }
        } catch {
            return nil
        }
    }
}
