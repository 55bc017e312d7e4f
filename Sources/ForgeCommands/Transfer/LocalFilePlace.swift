import ForgeStorage
import Foundation
import SystemPackage

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
        var walk = FileWalk(root, skipsStores: isStore, skipsLeftovers: isStore)
        var found: [FilePlaceEntry] = []
        while true {
            try Interruption.check()
            do {
                guard let entry = try walk.next() else { return found }
                // Deletions are decided by the role of a file; a copy reads every file.
                if try log == nil && !isDeletedWhenMissing(entry, in: walk) { continue }
                if let file = try entry.file(log, isStore: isStore) {
                    found.append(FilePlaceEntry(key: file, sizeInBytes: try size(of: entry.path)))
                }
            } catch let error as FileSystemError {
                guard let log else { throw error }
                try log.record(.fail, error.path?.shown ?? "", reason: "\(error)")
            }
        }
    }

    /// Whether a file may be deleted; nothing of a store in an ordinary directory is, since a server has no stores.
    private func isDeletedWhenMissing(_ entry: FileWalk.Entry, in walk: FileWalk) throws -> Bool {
        guard entry.type == .regular else { return false }
        if entry.path.splitLast().name.isLeftover { return target.isAbandoned(entry.path) }
        return try (isStore || entry.store == nil) && walk.role(of: entry).isDeletedWhenMissing
    }

    /// The size of a file for the progress; 0 if it has disappeared.
    private func size(of path: POSIXPath) throws(FileSystemError) -> Int64 {
        do throws(FileSystemError) {
            return try fileSystem.status(target.root.appending(path), followsSymbolicLinks: false).sizeInBytes
        } catch  where error.errno.isDisappearance {
            return 0
        }
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

extension FileWalk.Entry {
    /// The key of an entry that is copied, or may be deleted; nil for others.
    fileprivate func file(_ log: TransferLog?, isStore: Bool) throws -> String? {
        // A file whose path is not a valid key does not belong to a file store.
        if isStore, !path.isKey { return nil }
        guard type == .regular else {
            if !isStore { try log?.record(.skip, path.shown, reason: type.text) }
            return nil
        }
        guard let log else { return String(validating: path) }
        if let reason = path.keyRefusal {
            try log.record(.fail, path.shown, reason: reason)
            return nil
        }
        return String(validating: path)
    }
}
