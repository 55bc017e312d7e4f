import ForgeS3
import ForgeStorage
import Foundation
import SystemPackage

/// One side of a copy of files of which at least one side is on a server.
protocol FilePlace: Sendable {
    /// All files, in the order of their keys. Entries that cannot be copied are recorded in `log`, which is nil for the
    /// destination of a copy.
    func files(_ log: TransferLog?) async throws -> [FilePlaceEntry]

    /// Opens a file; nil if there is none.
    func open(_ key: String) async throws -> (any CopiedFile)?

    /// Stores the content of a file atomically; `isPresent` tells whether there was a file at the key.
    func store(_ file: any CopiedFile, as key: String, isPresent: Bool) async throws

    func delete(_ key: String) async throws

    /// Waits until everything that was stored is durable.
    func finish() throws

    /// Whether two keys are names of the same file, as on file systems that fold case.
    func isSameFile(_ key: String, _ other: String) -> Bool
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

    /// A server acknowledges what is durable.
    func finish() {}

    func isSameFile(_ key: String, _ other: String) -> Bool { key.utf8.elementsEqual(other.utf8) }
}

/// A file store or an ordinary directory on this machine, from or to which files of a server are copied.
struct LocalFilePlace: FilePlace {
    private static let pieceSize: Int64 = 1 << 23

    private let isStore: Bool
    private let target: FileTarget
    private let fileSystem = SystemFileSystem()

    init(_ home: Home) throws {
        isStore = home.scheme == .files
        target = try FileTarget(home)
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
                // Deletions are decided by the role of a file; a copy reads every file.
                if try log == nil && !isDeletedWhenMissing(entry, in: walk) { continue }
                if let file = try key(of: entry, in: walk, log) {
                    found.append(FilePlaceEntry(key: file, sizeInBytes: entry.status.sizeInBytes))
                }
            } catch let error as FileSystemError {
                guard let log else { throw error }
                try log.record(.fail, error.path?.shown ?? "", reason: "\(error)")
            }
        }
    }

    /// Whether a file may be deleted; nothing of a store in an ordinary directory is, since a server has no stores.
    private func isDeletedWhenMissing(_ entry: StoreWalk.Entry, in walk: StoreWalk) throws -> Bool {
        if entry.path.splitLast().name.isLeftover { return target.isAbandoned(entry.path) }
        return try (isStore || entry.root == nil) && walk.role(of: entry).isDeletedWhenMissing
    }

    /// The key of an entry that is copied, or may be deleted; nil for others, which are recorded if a copy reads them.
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
        guard try storeExists(at: URL(target.root), isDirectory: true) else { return nil }
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
            guard error.error.errno.isDisappearance || FileTarget.isTaken(error.error) else { throw error }
            return nil
        }
    }

    func isSameFile(_ key: String, _ other: String) -> Bool {
        target.identity(of: POSIXPath(key)).map { $0 == target.identity(of: POSIXPath(other)) } ?? false
    }

    // MARK: Writing

    func store(_ file: any CopiedFile, as key: String, isPresent: Bool) async throws {
        let (parent, name) = POSIXPath(key).splitLast()
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

/// A file store as the commands need it, with streamed contents and listings.
protocol CommandFileStore: FileStoring {
    /// The content of a file in parts. It is the whole content only once the sequence has ended without an error.
    func content(of key: String) async throws -> any AsyncSequence<Data, any Error>

    /// Creates a file that is written in parts.
    func newFile(_ key: String, if condition: SaveCondition) async throws -> any FileWriting

    /// Calls `body` with every file below a directory, in the order of their keys.
    func forEachFile(in directory: String, _ body: (StoredFile) throws -> Void) async throws
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

    func forEachFile(in directory: String, _ body: (StoredFile) throws -> Void) async throws {
        for try await file in files(in: directory, FileListingOptions(sorted: true)) where !file.isDirectory {
            try body(file)
        }
    }
}

/// A file store on a server, as the verbs use it.
protocol ServerFileStoring: CommandFileStore {
    /// Calls `files` with every file, in any order, and `foreign` with every other object and the reason why it is no
    /// file.
    func forEachObject(files: (FilePlaceEntry) -> Void, foreign: (String, String) throws -> Void) async throws

    /// Opens a file for a copy; nil if there is none.
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

    func forEachFile(in directory: String, _ body: (StoredFile) throws -> Void) async throws {
        let files = try await list(in: directory, recursive: true).filter { !$0.isDirectory }
        // As in a store on disk: component by component, so that the slash comes before all other bytes.
        let order: (StoredFile) -> [UInt8] = { $0.key.utf8.map { $0 == UInt8(ascii: "/") ? 0 : $0 } }
        for file in files.sorted(by: { order($0).lexicographicallyPrecedes(order($1)) }) { try body(file) }
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

    func read(_ range: Range<Int64>) async throws -> Data { try await reader.read(range) }

    func checksumOfContent() async throws -> String {
        var hash = ContentHash()
        for try await part in store.contents(of: reader.file.key) { hash.update(part) }
        return hash.finish()
    }

    /// Every part of a file is read with its revision.
    func requireUnchanged() {}
}
#endif
