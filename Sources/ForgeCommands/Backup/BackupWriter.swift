import ForgeStorage
import Foundation
import SystemPackage

/// Copies the stores below a directory into a backup.
///
/// A key-value store is written from one state of it: the one that a scan of its log finds. Every other file is copied
/// as it was at one moment; stores replace files as a whole. Files that only running processes need are left out.
struct BackupWriter {
    private let fileSystem = SystemFileSystem()
    private let source: ConfinedDirectory
    private let content: ConfinedDirectory
    private let manifest: BackupManifestWriter
    private let report: BackupReport
    private let flush = BulkFlush()
    /// The directory that was created last.
    private var lastParent: POSIXPath?

    /// Begins the backup of a directory of stores to an empty directory.
    init(_ source: POSIXPath, to target: POSIXPath, _ report: BackupReport) throws {
        self.source = try ConfinedDirectory(source)
        self.report = report
        let content = target.appending(BackupManifest.content)
        try fileSystem.createDirectory(content, permissions: .ownerReadWriteExecute)
        self.content = try ConfinedDirectory(content)
        manifest = try BackupManifestWriter(in: target)
    }

    /// Copies everything, and completes the manifest.
    ///
    /// - Throws: ``CommandFailure`` with the status `notFound` if there is nothing to back up.
    ///   ``FileWalk/ContainsOther`` if the backup itself is found below the source.
    mutating func run() throws {
        var walk = FileWalk(
            source, skipsStores: false, skipsLeftovers: true,
            other: Ancestry.identity(of: content.path.splitLast().parent))
        while true {
            try Interruption.check()
            let entry: FileWalk.Entry?
            do {
                entry = try walk.next()
            } catch let error as FileSystemError {
                guard error.path != source.path else { throw error }
                try report.fail(error.path?.shown ?? "", "\(error)")
                continue
            }
            guard let entry else { break }
            try add(entry, of: walk)
        }
        guard !report.isEmpty else {
            throw CommandFailure("no store here: \(source.path) contains no files", .notFound)
        }
        try flush.finish()
        try manifest.finish()
    }

    private mutating func add(_ entry: FileWalk.Entry, of walk: FileWalk) throws {
        guard entry.type == .regular else { return try report.skip(entry.path.shown, entry.type.text) }
        guard let path = String(validating: entry.path) else {
            return try report.fail(entry.path.shown, "the name is not valid UTF-8")
        }
        do {
            switch try walk.role(of: entry) {
            case .bookkeeping, .temporary: return
            // Saved with the log, and empty for vaults; a journal only names files of running processes.
            case .marker where entry.path.splitLast().name == .lockName: return
            case .marker where entry.path.splitLast().name.bytes.starts(with: POSIXPath.journalPrefix.utf8): return
            case .log where entry.owner.kinds.contains(.keyValue): try addStore(path, entry.path)
            case .content, .log, .vault, .vaultKey, .image, .quarantine, .marker, .moved:
                try addFile(path, entry.path)
            }
        } catch let error as FileSystemError
            where error.errno == .noSuchFileOrDirectory && error.path?.bytes.starts(with: source.path.bytes) == true
        {
            return  // Removed after it was listed.
        } catch let error as FileSystemError where error.path?.bytes.starts(with: content.path.bytes) != true {
            try report.fail(path, "\(error)")
        } catch let error as CommandFailure where error.status == .failure {
            try report.fail(path, "\(error)")
        }
    }

    private mutating func addFile(_ path: String, _ item: POSIXPath) throws {
        _ = try place(for: item)
        let copied = try HashedCopy().copy(item, in: source, to: content)
        try manifest.add(
            BackupManifest.File(
                path: path, bytes: copied.content.bytes, sha256: copied.content.sha256,
                permissions: UInt16(copied.permissions.rawValue)))
        try report.count(bytes: copied.content.bytes)
    }

    /// Writes the values of a store into a new one.
    private mutating func addStore(_ path: String, _ item: POSIXPath) throws {
        let from = source.path.appending(item).splitLast().parent
        let to = try place(for: item).splitLast().parent
        let store: FileKVStore
        let damage: [String]
        do {
            (store, damage) = try KVStoreArgument.open(URL(from), .readOnly)
        } catch let error as KVStoreError {
            return try report.fail(path, "\(error)")
        } catch let error as CommandFailure where error.status == .notFound {
            return  // Removed after it was listed.
        }
        let keys = try Self.copy(store, to: URL(to))
        // With the lock file, by which the restored directory is recognised as a store.
        for (name, keys) in [(item, keys), (item.splitLast().parent.appending(.lockName), nil)] {
            let file = try HashedCopy().content(of: name, in: content)
            try manifest.add(
                BackupManifest.File(
                    path: String(name), bytes: file.bytes, sha256: file.sha256, permissions: 0o600, keys: keys))
            try report.count(bytes: file.bytes)
        }
        for text in damage { try report.fail(path, "damaged, all that can be read is in the backup: \(text)") }
    }

    private static func copy(_ store: FileKVStore, to url: URL) throws -> Int {
        let copy = try KVStoreArgument.open(url, .readWrite).store
        var batch = KeyValueBatch(limit: .max)
        let keys = try store.keys().sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        for key in keys {
            try Interruption.check()
            guard let bytes = try store.rawValue(named: key) else { continue }
            if batch.refuses(key, bytes) {
                try copy.commit(batch.changes)
                batch.removeAll()
            }
            batch.append(key, bytes)
        }
        try copy.commit(batch.changes)
        try copy.synchronize()
        try copy.close()
        return keys.count
    }

    /// The path of a file in the backup, whose directory exists afterwards.
    private mutating func place(for item: POSIXPath) throws -> POSIXPath {
        let path = content.path.appending(item)
        let parent = path.splitLast().parent
        if parent != lastParent {
            try fileSystem.createDirectories(
                parent, at: .workingDirectory, permissions: .ownerReadWriteExecute, resolution: [])
            try flush.include(parent)
            lastParent = parent
        }
        return path
    }
}
