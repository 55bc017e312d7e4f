import ForgeS3
import ForgeStorage
import Foundation
import SystemPackage

/// The source or the destination of a copy of files between two places, at least one of them on a server.
protocol FilePlace: Sendable {
    /// The files, in the order of the bytes of their keys.
    ///
    /// For the source of a copy, `log` receives the entries that cannot be copied. For the destination `log` is nil, and
    /// only files that the copy may delete are listed.
    func files(_ log: TransferLog?) async throws -> [FilePlaceEntry]

    /// The keys of all files that a copy from this place would copy now.
    ///
    /// - Throws: `FileSystemError` for the first directory or file that cannot be read.
    func keys() async throws -> [String]

    /// Whether a file that was listed, and that ``open(_:)`` does not find any more, was removed. False if its
    /// directory is not found either: that may have been moved.
    func isRemoved(_ key: String) throws -> Bool

    /// Opens a file; nil if there is no file at the key.
    func open(_ key: String) async throws -> (any CopiedFile)?

    /// The store or backup in a directory that keeps a file from being stored at a key; nil if there is none.
    func obstacle(to key: String) throws -> PresentStore?

    /// Stores the content of a file atomically; `isPresent` says whether a file was found at the key.
    func store(_ file: any CopiedFile, as key: String, isPresent: Bool) async throws

    /// Deletes a file.
    func delete(_ key: String) async throws

    /// Waits until all files that were stored are durable.
    func finish() throws

    /// Whether two keys name the same file, as on file systems that fold case.
    func isSameFile(_ key: String, _ other: String) -> Bool
}

extension FilePlace {
    func keys() async throws -> [String] { try await files(nil).map(\.key) }

    func isRemoved(_ key: String) throws -> Bool { true }

    func obstacle(to key: String) throws -> PresentStore? { nil }
}

/// A file of a listing.
struct FilePlaceEntry: Sendable {
    var key: String
    var sizeInBytes: Int64
}

/// A file store on a server.
struct ServerFilePlace: FilePlace {
    let files: any ServerFileStoring

    func files(_ log: TransferLog?) async throws -> [FilePlaceEntry] {
        var found: [FilePlaceEntry] = []
        try await files.forEachObject {
            found.append($0)
        } foreign: { name, reason in
            try log?.record(.fail, name, reason: reason)
        }
        return found.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
    }

    func open(_ key: String) async throws -> (any CopiedFile)? { try await files.openForCopy(key) }

    func store(_ file: any CopiedFile, as key: String, isPresent: Bool) async throws {
        try await files.save(file, to: key)
    }

    func delete(_ key: String) async throws { try await files.delete(key) }

    /// Has no effect: a server acknowledges a write only once it is durable.
    func finish() {}

    func isSameFile(_ key: String, _ other: String) -> Bool { key.utf8.elementsEqual(other.utf8) }
}

/// A file store or an ordinary directory on this machine.
struct LocalFilePlace: FilePlace {
    private static let pieceSize: Int64 = 1 << 23

    private let isStore: Bool
    private let target: FileTarget
    private let directory: ConfinedDirectory?
    private let fileSystem = SystemFileSystem()

    /// `directory` is the opened directory; nil to open it for each call.
    init(_ home: Home, reading directory: ConfinedDirectory? = nil) throws {
        isStore = home.scheme == .files
        target = try FileTarget(home)
        self.directory = directory
    }

    // MARK: Reading

    func files(_ log: TransferLog?) async throws -> [FilePlaceEntry] {
        guard let root = try root() else { return [] }
        var walk = StoreWalk(root)
        var found: [FilePlaceEntry] = []
        while true {
            try Interruption.check()
            do {
                guard let entry = try walk.nextFile(ofStore: isStore) else { return found }
                // As the destination, list only files that the copy may delete.
                if try log == nil && !isDeletedWhenMissing(entry, in: walk) { continue }
                if let file = try key(of: entry, in: walk, log) {
                    found.append(FilePlaceEntry(key: file, sizeInBytes: entry.status.sizeInBytes))
                }
            } catch let error as FileSystemError {
                // A destination has no file to delete in a directory that disappears.
                if log == nil, error.errno.isDisappearance { continue }
                guard let log else { throw error }
                try log.record(.fail, error.shownPath, reason: error.reasonLeftOut)
            }
        }
    }

    func keys() async throws -> [String] {
        guard let root = try root() else { return [] }
        var walk = StoreWalk(root)
        var keys: [String] = []
        while let entry = try walk.nextFile(ofStore: isStore) {
            try Interruption.check()
            guard case .copied = try walk.carried(entry, ofStore: isStore), entry.path.isKey,
                let key = String(validating: entry.path)
            else { continue }
            keys.append(key)
        }
        return keys
    }

    /// Whether a copy deletes a file that the source lacks. Files of a store inside an ordinary directory are never
    /// deleted: a server has no such stores.
    private func isDeletedWhenMissing(_ entry: StoreWalk.Entry, in walk: StoreWalk) throws -> Bool {
        if entry.path.splitLast().name.isLeftover { return target.isAbandoned(entry.path) }
        if try target.backup(above: entry.path.splitLast().parent) != nil { return false }
        let role = try walk.role(of: entry)
        if entry.scope.store == .none, try target.isUnmarkedStoreFile(entry.path, role) { return false }
        return (isStore || entry.root == nil) && role.isDeletedWhenMissing
    }

    /// The key of an entry that is copied or may be deleted; nil for other entries, which are recorded if there is a
    /// log.
    private func key(of entry: StoreWalk.Entry, in walk: StoreWalk, _ log: TransferLog?) throws -> String? {
        switch try walk.carried(entry, ofStore: isStore) {
        case .copied where log == nil || entry.path.isKey: return String(validating: entry.path)
        case .copied: try log?.record(.fail, entry.path.shown, reason: entry.path.keyRefusal)
        case .omitted: break
        case .skipped(let reason): try log?.record(.skip, entry.path.shown, reason: reason)
        case .failed(let reason): try log?.record(.fail, entry.path.shown, reason: reason)
        }
        return nil
    }

    /// The directory; nil if it does not exist.
    private func root() throws -> ConfinedDirectory? {
        if let directory { return directory }
        guard try itemExists(at: URL(target.root), isDirectory: true) else { return nil }
        return try ConfinedDirectory(target.root)
    }

    func open(_ key: String) async throws -> (any CopiedFile)? {
        guard let root = try root() else { return nil }
        let path = POSIXPath(key)
        let (parent, name) = path.splitLast()
        do throws(SourceFailure) {
            let directory = try SourceFile.openDirectory(parent, in: root)
            defer { fileSystem.discard(directory) }
            let file = LocalCopiedFile(
                try SourceFile(name, in: directory, path: target.root.appending(path), on: fileSystem))
            return file.file.status.type == .regular ? file : nil
        } catch {
            guard error.error.errno.isDisappearance else { throw error }
            return nil
        }
    }

    func isRemoved(_ key: String) throws -> Bool {
        guard let root = try root() else { return false }
        do throws(SourceFailure) {
            fileSystem.discard(try SourceFile.openDirectory(POSIXPath(key).splitLast().parent, in: root))
            return true
        } catch {
            return false
        }
    }

    func isSameFile(_ key: String, _ other: String) -> Bool {
        target.identity(of: POSIXPath(key)).map { $0 == target.identity(of: POSIXPath(other)) } ?? false
    }

    // MARK: Writing

    func store(_ file: any CopiedFile, as key: String, isPresent: Bool) async throws {
        let (parent, name) = POSIXPath(key).splitLast()
        if let obstacle = try obstacle(to: key) { throw obstacle }
        if let store = target.store {
            try await save(file, in: store, as: key)
        } else {
            try target.prepare(parent, like: nil)
            let directory = try target.openDirectory(parent)
            defer { fileSystem.discard(directory) }
            try await PartialFile(of: Array("\(key)\n\(file.identity)".utf8), in: directory, on: fileSystem)
                .finish(file, as: name, isExpected: isPresent)
        }
        try target.includeInFlush(parent)
    }

    func obstacle(to key: String) throws -> PresentStore? {
        let (parent, name) = POSIXPath(key).splitLast()
        guard target.store == nil else { return try target.isInUnknownStore(parent) ? PresentStore.unknown : nil }
        if let obstacle = try target.obstacle(toCreating: parent, like: nil) { return obstacle }
        let directory: Descriptor
        do throws(FileSystemError) {
            directory = try target.openDirectory(parent)
        } catch {
            guard error.errno == .noSuchFileOrDirectory else { throw error }
            return nil
        }
        defer { fileSystem.discard(directory) }
        if try target.backup(above: parent) != nil { return .backup }
        let scope = try StoreScope(of: directory, on: fileSystem)
        guard try scope.store.hasNestedKeys || scope.isStoreFile(name, at: directory, on: fileSystem) else {
            return nil
        }
        let kind = try fileSystem.kindByContent(of: name, at: directory) ?? .keyValue
        return PresentStore(text: scope.store.text ?? kind.text)
    }

    private func save(_ file: any CopiedFile, in store: DiskFileStore, as key: String) async throws {
        let expected = try await file.checksum()
        try await store.write(key, if: .always) { writer in
            var hash = ContentHash()
            var offset: Int64 = 0
            while offset < file.sizeInBytes {
                try Interruption.check()
                let piece = try await file.read(offset..<min(offset + Self.pieceSize, file.sizeInBytes))
                guard !piece.isEmpty else { break }
                hash.update(piece)
                try await writer.write(piece)
                offset += Int64(piece.count)
            }
            guard hash.finish() == expected else { throw CopyDamage() }
        }
    }

    func delete(_ key: String) async throws { try await target.delete(POSIXPath(key)) }

    func finish() throws { try target.finish() }
}

/// A file was not written, because its name belongs to a store in the destination.
struct PresentStore: Error, CustomStringConvertible {
    let description: String

    static let backup = PresentStore(description: "the destination has a backup there")

    static let unknown = PresentStore(text: DirectoryOwner.unknownStore.words)

    /// - Parameter scope: That of the store's directory.
    init(_ scope: StoreScope) { self.init(text: scope.store.words) }

    /// - Parameter text: The kinds of the store in words.
    init(text: String) { self.init(description: "the destination has a store there: \(text)") }

    private init(description: String) { self.description = description }
}

/// A server refuses to return one file, such as an object in S3 that is archived.
struct RefusedFile: Error, CustomStringConvertible {
    let error: FileStoreError

    var description: String { "\(error)" }

    /// Calls `body`, which reads one file, and converts a refusal.
    static func converting<Result>(_ body: () async throws -> Result) async throws -> Result {
        do {
            return try await body()
        } catch let error as FileStoreError where error.code == .notPermitted {
            throw RefusedFile(error: error)
        }
    }
}

/// A file store with the streamed contents and listings that the commands need.
protocol CommandFileStore: FileStoring {
    /// The content of a file in parts. The content is complete only if the sequence ends without an error.
    func content(of key: String) async throws -> any AsyncSequence<Data, any Error>

    /// Creates a file that is written in parts.
    func newFile(_ key: String, if condition: SaveCondition) async throws -> any FileWriting

    /// Calls `body` with every file below a directory, in the order of their keys, and then `unlisted` with each item
    /// there that the store cannot list, and the reason: other stores, and what other programs have left under names that
    /// are no keys, or in directories that cannot be searched.
    func forEachFile(
        in directory: String, _ body: (StoredFile) throws -> Void,
        unlisted: (_ path: POSIXPath, _ reason: String) throws -> Void
    ) async throws
}

extension CommandFileStore {
    /// Stores what `body` writes, or nothing if it throws.
    func write(_ key: String, if condition: SaveCondition, _ body: (any FileWriting) async throws -> Void) async throws
    {
        let writer = try await newFile(key, if: condition)
        do {
            try await body(writer)
            try await writer.commit()
        } catch {
            await writer.cancel()
            throw error
        }
    }
}

extension DiskFileStore: CommandFileStore {
    func content(of key: String) async throws -> any AsyncSequence<Data, any Error> {
        try await reader(for: key).chunks()
    }

    func newFile(_ key: String, if condition: SaveCondition) async throws -> any FileWriting {
        try await writer(for: key, if: condition, durability: nil, attributes: [:])
    }

    func forEachFile(
        in directory: String, _ body: (StoredFile) throws -> Void,
        unlisted: (_ path: POSIXPath, _ reason: String) throws -> Void
    ) async throws {
        // Links and the like, and directories that cannot be read, which the listing shows.
        var shown: Set<POSIXPath> = []
        // The directories that the walk has not found yet, and those that it finds besides.
        var listed: Set<POSIXPath> = []
        var appeared: [POSIXPath] = []
        for try await file in files(in: directory, FileListingOptions(sorted: true)) {
            guard !file.isDirectory else {
                listed.insert(POSIXPath(file.key))
                continue
            }
            if file.kind != .file { shown.insert(POSIXPath(file.key)) }
            try body(file)
        }
        let parent = POSIXPath(directory)
        var walk = StoreWalk(try ConfinedDirectory(POSIXPath(root).appending(parent)))
        while true {
            try Interruption.check()
            do {
                let next = try walk.nextFile(ofStore: true) { entered in
                    let path = parent.appending(entered.path)
                    if listed.remove(path) == nil, !entered.path.isEmpty, path.isKey { appeared.append(path) }
                }
                guard let entry = next else {
                    // One of them may be the one that is not found, perhaps moved before its files were listed.
                    guard !listed.isEmpty else { return }
                    let reason = "it appeared after the listing had begun: its files are not listed"
                    return try appeared.forEach { try unlisted($0, reason) }
                }
                let path = parent.appending(entry.path)
                // The walk does not know the markers of this store if it may not read them.
                if path.isStoreMarker && path.splitLast().parent.isEmpty { continue }
                switch try walk.carried(entry, ofStore: true) {
                case .omitted: break
                case .copied: if let reason = path.keyRefusal { try unlisted(path, reason) }
                case .skipped(let reason), .failed(let reason): if !shown.contains(path) { try unlisted(path, reason) }
                }
            } catch let error as FileSystemError {
                let path = error.path.map(parent.appending) ?? parent
                listed.remove(path)
                if !shown.contains(path) { try unlisted(path, error.reasonLeftOut) }
            }
        }
    }
}

/// A file store on a server, as the commands use it.
protocol ServerFileStoring: CommandFileStore {
    /// Calls `files` with every file, in any order, and `foreign` with the name of every other object and the reason
    /// why it is not a file of the store.
    func forEachObject(files: (FilePlaceEntry) -> Void, foreign: (String, String) throws -> Void) async throws

    /// Opens a file for a copy; nil if there is no file at the key.
    func openForCopy(_ key: String) async throws -> (any CopiedFile)?

    /// Stores the content of another file, replacing an existing one, with constant memory.
    func save(_ file: any CopiedFile, to key: String) async throws
}

#if S3
extension S3FileStore: ServerFileStoring {
    func content(of key: String) async throws -> any AsyncSequence<Data, any Error> { contents(of: key) }

    func newFile(_ key: String, if condition: SaveCondition) async throws -> any FileWriting {
        try writer(for: key, if: condition)
    }

    func forEachFile(
        in directory: String, _ body: (StoredFile) throws -> Void,
        unlisted: (_ path: POSIXPath, _ reason: String) throws -> Void
    ) async throws {
        var files: [StoredFile] = []
        var foreign: [(name: String, reason: String)] = []
        try await forEachObject(in: directory) {
            files.append($0)
        } foreign: { name, _, reason in
            foreign.append((name, reason))
        }
        // The order of a store on disk compares component by component, so the slash comes before all other bytes.
        let order: (StoredFile) -> [UInt8] = { $0.key.utf8.map { $0 == UInt8(ascii: "/") ? 0 : $0 } }
        for file in files.sorted(by: { order($0).lexicographicallyPrecedes(order($1)) }) { try body(file) }
        for item in foreign { try unlisted(POSIXPath(item.name), item.reason) }
    }

    func forEachObject(files: (FilePlaceEntry) -> Void, foreign: (String, String) throws -> Void) async throws {
        try await forEachObject { file in
            files(FilePlaceEntry(key: file.key, sizeInBytes: file.sizeInBytes))
        } foreign: { name, _, reason in
            try foreign(name, reason)
        }
    }

    func openForCopy(_ key: String) async throws -> (any CopiedFile)? {
        do {
            return S3CopiedFile(store: self, reader: try await reader(for: key))
        } catch let error as FileStoreError where [.notFound, .isDirectory, .notDirectory].contains(error.code) {
            return nil
        }
    }

    func save(_ file: any CopiedFile, to key: String) async throws {
        try await save(
            sizeInBytes: file.sizeInBytes, checksum: try await file.checksum(), to: key,
            reading: { try await file.read($0) }, checking: { try file.requireUnchanged() })
    }
}

/// A file in S3 that is copied.
private struct S3CopiedFile: CopiedFile {
    let store: S3FileStore
    let reader: S3FileReader

    var sizeInBytes: Int64 { reader.file.sizeInBytes }
    var identity: String { "\(reader.revision)" }
    var knownChecksum: String? { reader.checksum }

    func read(_ range: Range<Int64>) async throws -> Data {
        try await RefusedFile.converting { try await reader.read(range) }
    }

    func checksumOfContent() async throws -> String {
        try await RefusedFile.converting {
            var hash = ContentHash()
            for try await part in store.contents(of: reader.file.key) { hash.update(part) }
            return hash.finish()
        }
    }

    /// Has no effect: each read requests the revision that was opened.
    func requireUnchanged() {}
}
#endif
