import ForgeCrypt
package import ForgeFileSystem
import ForgeKVStore
import SystemPackage

/// The role of a file in a directory, which decides what a tool may do with it.
package enum FileRole: Hashable, Sendable {
    /// A file of the app or of another program: read, listed and saved like any other, never changed.
    case content
    /// The log of a key-value store.
    case log
    /// A vault.
    case vault
    /// The file of a vault's key.
    case vaultKey
    /// An entry of an image cache.
    case image
    /// Unreadable data that a store set aside.
    case quarantine
    /// A file by which a directory is recognised as that of a store.
    case marker
    /// A file that only running processes need.
    case bookkeeping
    /// A temporary file, or a tree that is being deleted, of a store that has recorded it.
    case temporary
    /// A file on its way into a file store, perhaps the only copy.
    case moved
}

/// Whose directory it is, according to what stores have written in it, and the roles of its files.
///
/// A name proves nothing: an app may store a file under every name that is a valid key. A directory belongs to a
/// key-value store if its lock file has the content of one, to vaults if it has their lock file, to a file store or a
/// cache if a journal of temporary names has the right header and checksum. Below the root of a file store everything
/// is content, until a directory is the root of another store.
///
/// If the file by which a store would be recognised has another content, the owner is unknown: everything in that
/// directory and below it is content.
package struct StoreEvidence: Sendable {
    /// The kinds of stores that share a directory.
    package struct Kinds: OptionSet, Hashable, Sendable {
        package let rawValue: UInt8

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        package static let keyValue = Kinds(rawValue: 1)
        package static let vaults = Kinds(rawValue: 2)
        /// A file store, or a cache that stores its entries as one does.
        package static let files = Kinds(rawValue: 4)
        /// An image cache; with ``files``.
        package static let images = Kinds(rawValue: 8)
        /// A bounded cache; with ``files``.
        package static let cache = Kinds(rawValue: 16)
    }

    /// What the directories above say of one that is no root.
    private enum Surroundings {
        case none, fileStore, unknown
    }

    /// The stores whose root this directory is.
    package let kinds: Kinds

    /// Whether this directory has a marker of a store with another content.
    package let hasForeignMarker: Bool

    private let surroundings: Surroundings
    /// The parts of the names of temporary files that tell their owners, of the file stores here and above.
    private let temporaryIDs: Set<POSIXPath>
    private let markers: Set<POSIXPath>

    private static let vaultLock: POSIXPath = "#lock-vaults"

    /// Whether the directory is the root of a store, known or not.
    package var isRoot: Bool { !kinds.isEmpty || hasForeignMarker }

    /// Whether a store that cannot be recognised owns the directory.
    package var isUnknown: Bool { hasForeignMarker || (kinds.isEmpty && surroundings == .unknown) }

    /// Whether the directory is below the root of a file store, and no root itself.
    package var isInFileStore: Bool { !isRoot && surroundings == .fileStore }

    /// Looks for stores in an open directory; creates, changes and locks nothing.
    ///
    /// - Parameters:
    ///   - directory: The directory.
    ///   - parent: What was found in the directory above; nil if that is not looked at.
    ///   - fileSystem: Its file system.
    /// - Throws: The error of reading the directory. A marker that cannot be read is one of an unknown store.
    package init(
        of directory: Descriptor, below parent: StoreEvidence?, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) {
        let found = Marks(at: directory, on: fileSystem)
        var kinds: Kinds = []
        var (markers, isForeign): (Set<POSIXPath>, Bool) = ([], false)
        switch found.content(of: .lockName) {
        case .absent: break
        case .bytes(let bytes)
        where FileKVStore.isLock(bytes)
            || (bytes.allSatisfy { $0 == 0 } && FileKVStore.isLog(startingWith: found.log())):
            kinds.insert(.keyValue)
            markers.insert(.lockName)
        case .bytes, .unreadable: isForeign = true
        }
        switch found.content(of: Self.vaultLock) {
        case .absent: break
        case .bytes(let bytes) where bytes.isEmpty:
            kinds.insert(.vaults)
            markers.insert(Self.vaultLock)
        case .bytes, .unreadable: isForeign = true
        }
        let journals = found.journals()
        if journals.isForeign { isForeign = true }
        if !journals.names.isEmpty {
            kinds.insert(.files)
            markers.formUnion(journals.names)
            kinds.formUnion(try found.caches())
        }
        self.kinds = kinds
        self.markers = markers
        hasForeignMarker = isForeign
        let isBelow = parent.map { !$0.isRoot || $0.kinds.contains(.files) || $0.hasForeignMarker } ?? false
        temporaryIDs = journals.ids.union(isBelow && kinds.isEmpty ? parent?.temporaryIDs ?? [] : [])
        surroundings =
            switch parent {
            case nil: .none
            case let parent? where parent.isUnknown: .unknown
            case let parent? where parent.kinds.contains(.files): .fileStore
            case let parent? where parent.isRoot: .none
            case let parent?: parent.surroundings
            }
    }

    /// Looks for stores in a directory and in all directories above it.
    ///
    /// - Throws: The error of opening the directory. Directories above that cannot be read are taken for ordinary ones.
    package init(at path: POSIXPath, on fileSystem: any POSIXFileSystem) throws(FileSystemError) {
        let descriptor = try fileSystem.open(path, .readOnly, options: [.directory])
        defer { fileSystem.discard(descriptor) }
        let above = try Self.above(descriptor, on: fileSystem)
        try self.init(of: descriptor, below: above, on: fileSystem)
    }

    /// The evidence of the directory above an open one, with that of all directories above it; nil for the highest.
    private static func above(
        _ directory: Descriptor, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> StoreEvidence? {
        var chain: [Descriptor] = []
        defer { for descriptor in chain { fileSystem.discard(descriptor) } }
        var identity = DirectoryIdentity(try fileSystem.status(of: .descriptor(directory)))
        var current = directory
        while chain.count < 256 {
            do throws(FileSystemError) {
                let parent = try fileSystem.open("..", at: current, .readOnly, options: [.directory])
                chain.append(parent)
                let above = DirectoryIdentity(try fileSystem.status(of: .descriptor(parent)))
                guard above != identity else { break }
                (identity, current) = (above, parent)
            } catch {
                break
            }
        }
        var evidence: StoreEvidence?
        for descriptor in chain.reversed() {
            do throws(FileSystemError) {
                evidence = try StoreEvidence(of: descriptor, below: evidence, on: fileSystem)
            } catch {
                evidence = nil
            }
        }
        return evidence
    }

    // MARK: Roles

    /// The role of a file in the directory.
    ///
    /// - Parameters:
    ///   - name: Its name.
    ///   - start: Reads up to 64 bytes from its beginning; called only if the role depends on them.
    /// - Returns: The role.
    /// - Throws: The error of `start`.
    package func role(
        of name: POSIXPath, startingWith start: () throws(FileSystemError) -> [UInt8]
    ) throws(FileSystemError) -> FileRole {
        if markers.contains(name) { return .marker }
        if isUnknown { return .content }
        if isTemporary(name) { return .temporary }
        if kinds.contains(.keyValue) {
            if name == FileKVStore.logName { return .log }
            if FileKVStore.isBookkeeping(name) { return .bookkeeping }
            if FileKVStore.isTemporary(name) { return .temporary }
            if FileKVStore.isQuarantine(name) { return .quarantine }
        }
        if kinds.contains(.vaults), VaultCrypt.isTemporary(name) { return .temporary }
        if kinds.contains(.files), name.isMovedFile { return .moved }
        if kinds.contains(.images), ImageFile.isName(name) { return .image }
        guard mayHoldVaults else { return .content }
        if FileKVStore.isQuarantine(name) { return .quarantine }
        let bytes = try start()
        if VaultCrypt.isVault(startingWith: bytes) { return .vault }
        if VaultKeyFile.isKeyFile(startingWith: bytes) { return .vaultKey }
        if !isRoot, name == FileKVStore.logName, FileKVStore.isLog(startingWith: bytes) { return .log }
        return .content
    }

    /// The role of a file in the open directory; its content is read only if that decides.
    package func role(
        of name: POSIXPath, at directory: Descriptor, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> FileRole {
        try role(of: name) { () throws(FileSystemError) in
            let file = try fileSystem.open(name, at: directory, .readOnly, options: [.noFollow, .nonBlocking])
            return try fileSystem.closing(file) { () throws(FileSystemError) in
                try fileSystem.readBytes(of: file, at: 0, count: 64)
            }
        }
    }

    /// Whether a name is that of a temporary file or of trash which a file store here or above has recorded.
    package func isTemporary(_ name: POSIXPath) -> Bool {
        guard name.isLeftover, let id = name.ownerID else { return false }
        return temporaryIDs.contains(id)
    }

    /// Whether a vault here is one of the app's, not a copy that it has stored in a file store.
    package var mayHoldVaults: Bool { kinds.contains(.vaults) || (!isRoot && surroundings == .none) }

    /// The kinds of the stores in words; nil for a directory that is no root.
    package var text: String? {
        guard isRoot else { return nil }
        var words: [String] = []
        if kinds.contains(.keyValue) { words.append("key-value store") }
        if kinds.contains(.vaults) { words.append("vaults") }
        if kinds.contains(.files) { words.append("file store") }
        if hasForeignMarker { words.append("unknown store") }
        return words.joined(separator: ", ")
    }
}

/// The files of an open directory by which stores are recognised.
private struct Marks {
    enum Content {
        case absent, unreadable
        case bytes([UInt8])
    }

    let directory: Descriptor
    let fileSystem: any POSIXFileSystem

    init(at directory: Descriptor, on fileSystem: any POSIXFileSystem) {
        self.directory = directory
        self.fileSystem = fileSystem
    }

    /// The first 64 bytes of a regular file.
    func content(of name: POSIXPath) -> Content {
        do throws(FileSystemError) {
            let file = try fileSystem.open(name, at: directory, .readOnly, options: [.noFollow, .nonBlocking])
            return try fileSystem.closing(file) { () throws(FileSystemError) -> Content in
                guard try fileSystem.status(of: .descriptor(file)).type == .regular else { return .unreadable }
                return .bytes(try fileSystem.readBytes(of: file, at: 0, count: 64))
            }
        } catch {
            return error.errno == .noSuchFileOrDirectory ? .absent : .unreadable
        }
    }

    /// The first bytes of a log; none if there is none.
    func log() -> [UInt8] {
        guard case .bytes(let bytes) = content(of: FileKVStore.logName) else { return [] }
        return bytes
    }

    /// The journals of temporary names, which are numbered without gaps.
    func journals() -> (names: [POSIXPath], ids: Set<POSIXPath>, isForeign: Bool) {
        var (names, ids): ([POSIXPath], Set<POSIXPath>) = ([], [])
        for number in 0..<4096 {
            let name = POSIXPath("\(POSIXPath.journalPrefix)\(number)")
            switch content(of: name) {
            case .absent: return (names, ids, false)
            case .unreadable: return (names, ids, names.isEmpty)
            case .bytes(let bytes):
                guard let id = TemporaryFileOrigin.ownerID(inJournalStartingWith: bytes) else {
                    // After a power cut a journal may be empty; beside another one that changes nothing.
                    return (names, ids, names.isEmpty)
                }
                names.append(name)
                ids.insert(id)
            }
        }
        return (names, ids, false)
    }

    /// The kinds of caches whose entries the files beside a journal are: all have the name of an entry, and at least one
    /// the beginning of one.
    func caches() throws(FileSystemError) -> StoreEvidence.Kinds {
        var possible: StoreEvidence.Kinds = [.images, .cache]
        var found: StoreEvidence.Kinds = []
        for entry in try fileSystem.entries(of: directory) where !entry.name.isReservedName {
            if entry.type == .directory, entry.name == "quarantine" { continue }
            guard entry.type == .regular else { return [] }
            if !ImageFile.isName(entry.name) { possible.remove(.images) }
            if !CacheFile.isName(entry.name) { possible.remove(.cache) }
            if possible.isEmpty { return [] }
            guard found.isDisjoint(with: possible), case .bytes(let bytes) = content(of: entry.name) else { continue }
            if ImageFile.isImage(startingWith: bytes) { found.insert(.images) }
            if CacheFile.isEntry(startingWith: bytes) { found.insert(.cache) }
        }
        return found.intersection(possible)
    }
}
