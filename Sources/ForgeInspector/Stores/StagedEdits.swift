import ForgeCoding
import ForgeStorage
import Foundation
import Logging

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
    func apply(to directory: POSIXPath) throws {
        let fileSystem = SystemFileSystem()
        // A process that shares the store has created this file.
        let isShared = try fileSystem.exists(directory.appending("#shared"))
        var options = FileKVStore.Options(logger: Logger(label: "forge") { _ in SwiftLogNoOpLogHandler() })
        options.sharing = isShared ? .shared : .exclusive
        options.lockTimeout = .seconds(2)
        guard try fileSystem.exists(directory.appending("log")) else {
            throw KVStoreError(.noStore, .open, store: String(directory))
        }
        let store = try FileKVStore(at: directory, options: options)
        var batch = KVBatch()
        for edit in edits {
            let entry = try store.entry(named: edit.key)
            guard entry?.revision == edit.revision else {
                throw KVStoreError(.conflict, .batch, key: edit.key, store: String(directory))
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
    }

    private static func bytes(_ json: String, replacing old: [UInt8]?) throws -> [UInt8] {
        guard let old else {
            return try ValueEnvelope(schemaVersion: 1, payload: CodedValue(json: json).encoded()).encoded
        }
        let tree = try StoredTree(old)
        return try tree.encoded(CodedValue.edited(json, replacing: tree.value))
    }
}
