import ForgeStorage
import Foundation
import Synchronization
import SystemPackage

/// The destination of a copy of files: a file store, or an ordinary directory.
struct FileTarget: Sendable {
    let root: POSIXPath
    /// The file store; nil for an ordinary directory.
    let store: DiskFileStore?
    private let fileSystem = SystemFileSystem()
    private let flush = BulkFlush()
    private let locks = TargetStoreLocks()
    /// The directories of stores of the source whose kind is not known, which this copy has created, or found without a
    /// store.
    private let newStores = SharedPaths()
    /// The existing directories that were looked at for ``newStores``.
    private let presentDirectories = SharedPaths()
    /// The directories in which others may be created, so that each is looked at once.
    private let freeDirectories = SharedPaths()
    /// The directories below the root of a file store that were looked at for ``unknownStores``.
    private let knownDirectories = SharedPaths()
    /// The roots of stores below that of a file store which are not known.
    private let unknownStores = SharedPaths()

    init(_ home: Home) throws {
        root = try POSIXPath(home.url)
        store =
            home.scheme == .files
            ? DiskFileStore(root: home.url, options: FileStoreOptions(durability: BulkFlush.durability)) : nil
    }

    /// The reason why an item cannot be stored at its path; nil if it can.
    func refusal(of item: POSIXPath) -> String? {
        store == nil ? nil : item.keyRefusal
    }

    // MARK: Reading

    /// Opens a directory below the root, without following links.
    func openDirectory(_ path: POSIXPath) throws(FileSystemError) -> Descriptor {
        try open(path.isEmpty ? "." : path, options: [.directory])
    }

    /// Opens the entry with a name in an open directory; nil if it does not exist or cannot be opened, which a write to
    /// the name reports.
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
        let directory = try fileSystem.openDirectory(root)
        defer { fileSystem.discard(directory) }
        return try fileSystem.open(
            path, at: directory, .readOnly, options: options, permissions: [], resolution: Self.below)
    }

    /// The identity of the entry at the path of an item; nil if there is none.
    func identity(of item: POSIXPath) -> DirectoryIdentity? { Ancestry.identity(of: root.appending(item)) }

    // MARK: Writing

    /// Whether a store in the destination is a copy of one in the source: the source has a store of the same kinds at
    /// the same path. A store that the source does not have is kept whole, and so is one of a kind that is not known,
    /// unless this copy has made it.
    func isMirrored(_ store: POSIXPath, in source: ConfinedDirectory) throws(FileSystemError) -> Bool {
        if newStores.contains(store) { return true }
        do throws(FileSystemError) {
            let owner = try StoreScope(at: root.appendingIfAny(store), on: fileSystem).owner
            return try StoreScope(at: source.path.appendingIfAny(store), on: fileSystem).owner.includes(owner)
        } catch {
            guard error.errno.isDisappearance else { throw error }
            return false
        }
    }

    /// The logs, vaults and keys below a directory that are in directories which no store has marked, and the backups, by
    /// their paths relative to it; empty if the directory belongs to a store itself, or does not exist.
    ///
    /// - Parameters:
    ///   - directory: The directory.
    ///   - isRecursive: Whether directories below it are looked at too.
    /// - Returns: The files, with the kinds of their stores, and the backups, with nil.
    /// - Throws: `FileSystemError` for a file or directory that cannot be read; ``CommandFailure`` if interrupted.
    static func unmarkedStoreFiles(
        in directory: POSIXPath, isRecursive: Bool
    ) throws -> [(path: POSIXPath, kind: StoreKind?)] {
        var found: [(path: POSIXPath, kind: StoreKind?)] = []
        do {
            let tree = try ConfinedDirectory(directory)
            var walk = StoreWalk(tree)
            while let event = try walk.next() {
                try Interruption.check()
                switch event {
                // A directory that cannot be listed cannot be emptied either.
                case .other, .failed: continue
                case .entered(let entered):
                    let isLeft =
                        entered.path.isEmpty ? entered.scope.store != .none : !isRecursive || entered.scope.isRoot
                    if isLeft {
                        walk.leave()
                    } else if BackupManifest.isBackup(entered.path, in: tree) {
                        found.append((entered.path, nil))
                        walk.leave()
                    }
                case .file(let entry):
                    guard let kind = try walk.role(of: entry).kindByContent else { continue }
                    found.append((entry.path, kind))
                }
            }
        } catch let error as FileSystemError where error.errno.isDisappearance {}
        return found
    }

    /// Whether a directory of a file store is that of a store which is not known, or below one, or throws if one cannot be
    /// read; false if it is missing. The file store itself knows the markers of this version alone.
    func isInUnknownStore(_ directory: POSIXPath) throws(FileSystemError) -> Bool {
        var path: POSIXPath = ""
        for name in directory.bytes.split(separator: UInt8(ascii: "/")) {
            path = path.isEmpty ? POSIXPath(name) : path.appending(POSIXPath(name))
            if unknownStores.contains(path) { return true }
            if knownDirectories.contains(path) { continue }
            do throws(FileSystemError) {
                let opened = try openDirectory(path)
                defer { fileSystem.discard(opened) }
                guard try fileSystem.owner(of: opened) != .unknownStore else {
                    unknownStores.insert(path)
                    return true
                }
            } catch  where error.errno.isDisappearance {
                return false
            }
            knownDirectories.insert(path)
        }
        return false
    }

    /// Whether a file with a role, in a directory of the target that no store has marked, is one of a store: it is
    /// replaced only by such a file, and never deleted.
    func isUnmarkedStoreFile(_ item: POSIXPath, _ role: FileRole) throws(FileSystemError) -> Bool {
        if role.kindByContent != nil { return true }
        let (parent, name) = item.splitLast()
        // Only names that key-value stores use are looked at with what is beside them.
        guard role == .quarantine || name.bytes.first == UInt8(ascii: "#") else { return false }
        let directory = try openDirectory(parent)
        defer { fileSystem.discard(directory) }
        return try StoreScope.outside.isStoreFile(name, at: directory, on: fileSystem)
    }

    /// The outermost backup at or above a directory of an ordinary tree, below the root; nil if there is none. What an
    /// app has stored in a file store is no backup.
    ///
    /// - Throws: `FileSystemError` if that cannot be determined.
    func backup(above directory: POSIXPath) throws(FileSystemError) -> POSIXPath? {
        guard store == nil else { return nil }
        do throws(FileSystemError) {
            let tree = try ConfinedDirectory(root)
            var path: POSIXPath = ""
            for name in directory.bytes.split(separator: UInt8(ascii: "/")) {
                if BackupManifest.isBackup(path, in: tree) { break }
                path = path.isEmpty ? POSIXPath(name) : path.appending(POSIXPath(name))
            }
            guard BackupManifest.isBackup(path, in: tree) else { return nil }
            return try scope(of: path).store.hasNestedKeys ? nil : path
        } catch {
            guard error.errno == .noSuchFileOrDirectory else { throw error }
            return nil
        }
    }

    /// The scope of a directory of the target.
    func scope(of directory: POSIXPath) throws(FileSystemError) -> StoreScope {
        try StoreScope(at: root.appendingIfAny(directory), on: fileSystem)
    }

    /// The path of the nearest directory at or above another one, below the root, that is the root of a store; nil if
    /// there is none.
    func storeRoot(above directory: POSIXPath) throws(FileSystemError) -> POSIXPath? {
        var path = directory
        while try !scope(of: path).isRoot {
            guard !path.isEmpty else { return nil }
            path = path.splitLast().parent
        }
        return path
    }

    /// Locks the key-value store in a directory of an ordinary tree until the copy has ended, because files of it are
    /// replaced; returns false if another process has the store open. Has no effect where there is no such store.
    func lockStore(in directory: POSIXPath, of scope: StoreScope) throws(FileSystemError) -> Bool {
        guard scope.owner.contains(.keyValue),
            try fileSystem.exists(root.appendingIfAny(directory).appending(FileKVStore.logName))
        else { return true }
        return try locks.take(directory) { () throws(FileSystemError) in try openDirectory(directory) }
    }

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

    /// What keeps a directory of an ordinary tree from being created: the file store, unknown store or backup around it,
    /// in words, unless the source has that too. Nil if the directory exists, or may be created.
    func obstacle(
        toCreating directory: POSIXPath, like source: ConfinedDirectory?
    ) throws(FileSystemError) -> PresentStore? {
        var nearest = directory
        while true {
            do throws(FileSystemError) {
                fileSystem.discard(try openDirectory(nearest))
                break
            } catch  where error.errno == .noSuchFileOrDirectory {
                guard !nearest.isEmpty else { return nil }
                nearest = nearest.splitLast().parent
            }
        }
        guard nearest != directory, !freeDirectories.contains(nearest) else { return nil }
        let obstacle = try obstacle(in: nearest, like: source)
        if obstacle == nil { freeDirectories.insert(nearest) }
        return obstacle
    }

    private func obstacle(
        in directory: POSIXPath, like source: ConfinedDirectory?
    ) throws(FileSystemError) -> PresentStore? {
        if let backup = try backup(above: directory) {
            if let source, BackupManifest.isBackup(backup, in: source) { return nil }
            return .backup
        }
        let scope = try scope(of: directory)
        guard scope.store.hasNestedKeys || scope.isUnknown else { return nil }
        if let source, let root = try storeRoot(above: directory), try isMirrored(root, in: source) { return nil }
        return PresentStore(scope)
    }

    /// Whether an existing directory of an ordinary tree belongs to no store or backup, and none is in or below it that
    /// has no marker.
    private func isFree(_ directory: POSIXPath, like source: ConfinedDirectory?) throws -> Bool {
        guard try scope(of: directory).owner == .none, try obstacle(in: directory, like: source) == nil else {
            return false
        }
        return try Self.unmarkedStoreFiles(in: root.appendingIfAny(directory), isRecursive: true).isEmpty
    }

    /// The permissions of a directory of the source, and whether a store of a kind that is not known has marked it. For
    /// one that cannot be read, which each copy from it reports, those of a private directory.
    private func traits(
        of directory: POSIXPath, in source: ConfinedDirectory?
    ) -> (permissions: FilePermissions, isUnknownStore: Bool) {
        let other = (permissions: FilePermissions.ownerReadWriteExecute, isUnknownStore: false)
        guard let source else { return other }
        do throws(FileSystemError) {
            let opened = try source.open(directory.isEmpty ? "." : directory)
            defer { source.fileSystem.discard(opened) }
            let permissions = try fileSystem.status(of: .descriptor(opened)).permissions
            return (permissions: permissions, isUnknownStore: try fileSystem.owner(of: opened) == .unknownStore)
        } catch {
            return other
        }
    }

    /// Whether a directory of an ordinary tree exists.
    private func isPresent(_ directory: POSIXPath) throws(FileSystemError) -> Bool {
        do {
            fileSystem.discard(try openDirectory(directory))
            return true
        } catch  where error.errno == .noSuchFileOrDirectory {
            return false
        }
    }

    /// Creates a directory of an ordinary tree, and its ancestors, with the permissions of the same directories in
    /// `source` if that is given. Has no effect for a file store, and where a store or backup is an obstacle.
    func prepare(_ directory: POSIXPath, like source: ConfinedDirectory?) throws {
        guard store == nil else { return }
        guard try !isPresent(directory) else {
            guard !presentDirectories.contains(directory) else { return }
            presentDirectories.insert(directory)
            // Before a lock of the store, or a directory with the name of one, is copied there.
            if traits(of: directory, in: source).isUnknownStore, try isFree(directory, like: source) {
                newStores.insert(directory)
            }
            return
        }
        guard try obstacle(toCreating: directory, like: source) == nil else { return }
        let (permissions, isUnknownStore) = traits(of: directory, in: source)
        guard !directory.isEmpty else {
            try fileSystem.createDirectories(
                root, at: .workingDirectory, permissions: .ownerReadWriteExecute, resolution: [])
            if isUnknownStore { newStores.insert(directory) }
            return
        }
        let (parent, name) = directory.splitLast()
        try prepare(parent, like: source)
        let above = try openDirectory(parent)
        defer { fileSystem.discard(above) }
        do throws(FileSystemError) {
            // A shared directory passes its group on.
            try fileSystem.createDirectory(
                name, at: above, exactly: permissions.intersection(.all).union(.ownerReadWriteExecute),
                keeping: .setGroupID, isDurable: false)
            if isUnknownStore { newStores.insert(directory) }
        } catch {
            // Another process created the entry meanwhile. If it is not a directory, opening it reports that.
            guard error.errno == .fileExists else {
                throw FileSystemError(error.operation, error.errno, path: root.appending(directory))
            }
        }
    }

    /// Whether an error says that an entry of another type has the name of a directory or file of the target.
    static func isTaken(_ error: FileSystemError) -> Bool {
        [.notDirectory, .fileExists, .tooManySymbolicLinkLevels].contains(error.errno)
    }

    /// Copies a file atomically to a name in an open directory of an ordinary tree; `isPresent` says whether the name
    /// was found there.
    func replace(_ name: POSIXPath, in directory: Descriptor, by file: SourceFile, isPresent: Bool) throws {
        try PartialFile(of: file, in: directory, on: fileSystem).finish(file, as: name, isExpected: isPresent)
    }

    /// Whether an item is a partial file that no process is writing.
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

    /// Deletes a file, and registers its file system for the flush.
    func delete(_ item: POSIXPath) async throws {
        let (parent, name) = item.splitLast()
        try includeInFlush(parent)
        if let store { return try await store.delete(item.shown) }
        let root = try fileSystem.openDirectory(self.root)
        defer { fileSystem.discard(root) }
        try withParent(parent, at: root) { (directory) throws(FileSystemError) in
            try fileSystem.unlink(name, at: directory)
        }
    }

    private static let below: PathResolution = [.beneath, .noSymbolicLinks]

    /// Calls `body` with a directory below the open root, opened without following links.
    private func withParent(
        _ parent: POSIXPath, at root: Descriptor, _ body: (Descriptor) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        guard !parent.isEmpty else { return try body(root) }
        try fileSystem.withDirectory(parent, at: root, resolution: Self.below, body)
    }
}

/// Paths that the tasks of a copy share.
private final class SharedPaths: Sendable {
    private let paths = Mutex<Set<POSIXPath>>([])

    func insert(_ path: POSIXPath) { paths.withLock { _ = $0.insert(path) } }

    func contains(_ path: POSIXPath) -> Bool { paths.withLock { $0.contains(path) } }
}

/// The locks of the key-value stores in a destination whose files are replaced. All are held until the copy has ended,
/// with two descriptors each: several tasks copy files of one directory.
private final class TargetStoreLocks: Sendable {
    private enum Lock {
        case held(StoreLock, directory: Descriptor)
        case inUse
    }

    private let locks = Mutex<[POSIXPath: Lock]>([:])

    deinit {
        for case .held(_, let directory) in locks.withLock({ Array($0.values) }) {
            SystemFileSystem().discard(directory)
        }
    }

    /// Locks the store in a directory, unless that was done before; returns false if another process has it open.
    func take(
        _ path: POSIXPath, opening: () throws(FileSystemError) -> Descriptor
    ) throws(FileSystemError) -> Bool {
        try locks.withLock { (locks) throws(FileSystemError) in
            if locks[path] == nil { locks[path] = try Self.lock(opening()) }
            if case .held = locks[path] { return true }
            return false
        }
    }

    private static func lock(_ directory: Descriptor) throws(FileSystemError) -> Lock {
        do throws(FileSystemError) {
            return .held(try SystemFileSystem().lockKVStore(directory), directory: directory)
        } catch {
            SystemFileSystem().discard(directory)
            guard error.operation == .lock, error.errno == .resourceTemporarilyUnavailable else { throw error }
            return .inUse
        }
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

extension StoreWalk {
    /// The destination of a copy is below the walked source, or the source below the walked destination, for example
    /// through a mount.
    struct ContainsOther: Error {}

    /// The next entry that is not a directory, or a directory that is not entered: the root of another store inside a
    /// file store, or a directory that a store is removing.
    ///
    /// - Parameters:
    ///   - isStore: Whether the walked directory is the root of a file store.
    ///   - entered: Called with each directory that is entered.
    /// - Returns: The entry; nil after the last one.
    /// - Throws: `FileSystemError` for an entry that cannot be read, with its path; the next call continues after it.
    ///   ``ContainsOther``.
    mutating func nextFile(
        ofStore isStore: Bool, entered: (Entry) throws -> Void = { _ in }
    ) throws -> Entry? {
        while let event = try next() {
            switch event {
            case .file(let file): return file
            case .other: throw ContainsOther()
            case .failed(let error): throw error
            case .entered(let directory):
                try entered(directory)
                guard isStore, directory.scope.isRoot, !directory.path.isEmpty else { continue }
                leave()
                return directory
            }
        }
        return nil
    }

    /// How a copy treats an entry.
    enum Carried {
        case copied
        /// Not copied and not reported: an internal file of a store.
        case omitted
        /// Not copied, with the reason that is reported.
        case skipped(String)
        /// Not copied, with the reason that is reported as a failure.
        case failed(String)
    }

    /// How a copy treats an entry of a file store or of an ordinary directory.
    func carried(_ entry: Entry, ofStore isStore: Bool) throws(FileSystemError) -> Carried {
        let type = entry.status.type
        guard isStore else { return type == .regular ? .copied : .skipped(type.text) }
        switch try role(of: entry) {
        case .marker, .bookkeeping, .temporary: return .omitted
        // In a store without a marker, a file with the content of a log is one of the store's files.
        case .log where entry.scope.store != .none: return .omitted
        case .moved: return .skipped("a move into the store that is in progress or was interrupted")
        case .special(.directory): return .skipped("the root of another store: \(entry.scope.owner.words)")
        case .special(let type): return .skipped(type.text)
        case .content, .log, .vault, .vaultKey, .entry, .quarantine: break
        }
        return entry.path.keyRefusal.map { .failed($0) } ?? .copied
    }
}
