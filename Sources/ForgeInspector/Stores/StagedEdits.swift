import ForgeCoding
import ForgeStorage
import Foundation
import Logging
import SystemPackage

/// Edits of one store, which are applied together or not at all.
struct StagedEdits: Decodable, Sendable {
    struct Edit: Decodable, Sendable {
        var key: String
        /// The revision of the value that was edited; nil if the key was absent.
        var revision: UInt64?
        /// The JSON of the new value; nil removes the key.
        var json: String?
    }

    var store: String
    var edits: [Edit]

    /// Opens the store for writing and applies the edits durably. The store is not open afterwards, unless this process
    /// has opened it elsewhere.
    ///
    /// - Throws: `KVStoreError`: `.unavailable(.inUse)` for a store that another process has opened exclusively,
    ///   `.conflict` if one of the values has changed; ``EditFailure`` or `CodingFailure` for a text that cannot be
    ///   stored. Nothing was changed, unless the code is `.durabilityUnknown`.
    /// - Returns: The revisions of the new values by the names' bytes; nil for a removal.
    @discardableResult
    func apply(to found: FoundStore, in root: ConfinedDirectory) throws -> [POSIXPath: UInt64?] {
        let store = try Self.open(found.path, in: root)
        var batch = KVBatch()
        for edit in edits {
            let entry = try store.entry(named: edit.key)
            guard entry?.revision == edit.revision else {
                throw KVStoreError(.conflict, .batch, key: edit.key, store: found.name)
            }
            batch.require(edit.key, revision: edit.revision)
            if let json = edit.json {
                batch.append(.set(name: edit.key, bytes: try Self.bytes(json, replacing: entry?.bytes)))
            } else {
                batch.append(.remove(name: edit.key))
            }
        }
        try store.commit(batch)
        try store.synchronize()
        var revisions: [POSIXPath: UInt64?] = [:]
        for edit in edits {
            revisions[POSIXPath(edit.key)] = .some(edit.json == nil ? nil : try store.entry(named: edit.key)?.revision)
        }
        return revisions
    }

    /// Opens an existing store for writing; creates none.
    private static func open(_ path: POSIXPath, in root: ConfinedDirectory) throws -> FileKVStore {
        let fileSystem = root.fileSystem
        var options = FileKVStore.Options(logger: Logger(label: "forge") { _ in SwiftLogNoOpLogHandler() })
        options.lockTimeout = .seconds(2)
        let directory: Descriptor
        do throws(FileSystemError) {
            directory = try root.open(path)
        } catch {
            throw failure(error, path)
        }
        do throws(FileSystemError) {
            // Not only a file with the name of a log: opening would set it aside.
            guard try fileSystem.owner(of: directory).contains(.keyValue),
                try fileSystem.exists(FileKVStore.logName, at: directory, followsSymbolicLinks: false)
            else { throw FileSystemError(.open, .noSuchFileOrDirectory, path: FileKVStore.logName) }
            // A process that shares the store has created this file.
            let isShared = try fileSystem.exists("#shared", at: directory, followsSymbolicLinks: false)
            options.sharing = isShared ? .shared : .exclusive
        } catch {
            fileSystem.discard(directory)
            throw failure(error, path)
        }
        return try FileKVStore(takingOver: directory, at: path, fileSystem: fileSystem, options: options)
    }

    private static func failure(_ error: FileSystemError, _ path: POSIXPath) -> any Error {
        guard error.errno == .noSuchFileOrDirectory else { return error }
        return KVStoreError(.noStore, .open, store: path.description, underlying: error)
    }

    private static func bytes(_ json: String, replacing old: [UInt8]?) throws -> [UInt8] {
        guard let old else {
            return try ValueEnvelope(schemaVersion: 1, payload: CodedValue(json: json).encoded()).encoded
        }
        let tree = try StoredTree(old)
        return try tree.encoded(CodedValue.edited(json, replacing: tree.value))
    }
}
