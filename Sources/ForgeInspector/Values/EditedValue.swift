import Crypto
import ForgeCoding
import ForgeStorage
import Foundation
import Logging
import SystemPackage

/// Why an edited text cannot take the place of a value.
struct EditFailure: Error, CustomStringConvertible {
    let description: String
}

extension CodedValue {
    /// The value of an edited JSON text, in the types of the value that it replaces.
    ///
    /// JSON has no dates, bytes, UUIDs, URLs, whole or infinite floating-point numbers. Where the old value has one, the
    /// text in its place must have the form in which it was shown. A value of one type does not become one of another;
    /// only nil takes any place, and is replaced by anything.
    ///
    /// - Throws: `CodingFailure` for text that is not JSON; ``EditFailure`` for a text of another form.
    static func edited(_ json: String, replacing old: CodedValue) throws -> CodedValue {
        try CodedValue(json: json).typed(like: old, at: "the value")
    }

    private func typed(like old: CodedValue, at place: String) throws -> CodedValue {
        if try json().hasSameBytes(as: old.json()) { return old }
        switch (old, self) {
        case (.date, .string(let text)):
            do {
                return .date(try Date(iso8601: text))
            } catch {
                throw EditFailure(description: "\(place) is a date, such as 2026-01-31T12:00:00.000Z")
            }
        case (.bytes, .string(let text)):
            guard let data = Data(base64Encoded: text) else {
                throw EditFailure(description: "\(place) is a byte string, in base64")
            }
            return .bytes(Array(data))
        case (.tagged(37, _), .string(let text)):
            guard let uuid = UUID(uuidString: text) else { throw EditFailure(description: "\(place) is a UUID") }
            let id = uuid.uuid
            let bytes = [
                id.0, id.1, id.2, id.3, id.4, id.5, id.6, id.7, id.8, id.9, id.10, id.11, id.12, id.13, id.14, id.15,
            ]
            return .tagged(37, .bytes(bytes))
        case (.tagged(32, _), .string): return .tagged(32, self)
        case (.tagged(4, _), .integer), (.tagged(4, _), .double):
            throw EditFailure(description: "\(place) is a decimal number, which cannot be edited here")
        case (.double, .integer(let number)): return .double(Double(number))
        case (.double, .string(let text)): return .double(try Self.notFinite(text, at: place))
        case (.float, .integer(let number)): return .float(Float(number))
        case (.float, .double(let number)):
            let float = Float(number)
            guard float.isFinite else { throw EditFailure(description: "\(place) is a number of 32 bits") }
            return .float(float)
        case (.float, .string(let text)): return .float(Float(try Self.notFinite(text, at: place)))
        case (.array(let old), .array(let new)):
            return .array(
                try new.enumerated().map { index, element in
                    // An added element has the type of the last one.
                    guard let model = index < old.count ? old[index] : old.last else { return element }
                    return try element.typed(like: model, at: "element \(index)")
                })
        case (.map(let old), .map(let new)):
            return .map(
                try new.map { entry in
                    guard case .string(let name) = entry.key, let model = CodedValue.map(old)[name] else {
                        return entry
                    }
                    return Entry(entry.key, try entry.value.typed(like: model, at: "the member \(entry.key)"))
                })
        default:
            guard typeName == old.typeName || self == .null || old == .null else {
                throw EditFailure(description: "\(place) is of the type \(old.typeName)")
            }
            return self
        }
    }

    /// The value of a text as which JSON shows a number that it cannot represent.
    private static func notFinite(_ text: String, at place: String) throws(EditFailure) -> Double {
        switch text {
        case "Infinity": .infinity
        case "-Infinity": -.infinity
        case "NaN": .nan
        default: throw EditFailure(description: "\(place) is a number")
        }
    }
}

/// Edits of one store, which are applied together or not at all.
struct StagedEdits: Decodable, Sendable {
    struct Edit: Decodable, Sendable {
        var key: String
        /// The state of the value that was edited, ``state(of:revision:)``; nil if the key was absent.
        var state: String?
        /// The JSON of the new value; nil removes the key.
        var json: String?
    }

    /// The identifier of the store, ``FoundStore/id``.
    var store: String
    var edits: [Edit]

    /// The state of a value, as the page receives it and sends it back: its revision and a digest of its bytes.
    ///
    /// A revision alone may be that of another value, in a store that has taken the place of the shown one or was
    /// restored.
    static func state(of bytes: [UInt8], revision: UInt64) -> String {
        "\(revision) \(Data(SHA256.hash(data: bytes)).base64EncodedString())"
    }

    /// Opens the store for writing and applies the edits durably. The store is not open afterwards, unless this process
    /// has opened it elsewhere.
    ///
    /// - Throws: `KVStoreError`: `.unavailable(.inUse)` for a store that another process has opened exclusively,
    ///   `.conflict` if one of the values has changed; ``EditFailure`` or `CodingFailure` for a text that cannot be
    ///   stored, ``EditFailure`` with the text that `refusal` returns for the directory of the store. Nothing was
    ///   changed, unless the code is `.durabilityUnknown`.
    /// - Returns: The revisions of the new values by the names' bytes; nil for a removal.
    @discardableResult
    func apply(
        to found: FoundStore, in root: ConfinedDirectory, unless refusal: (Descriptor) -> String? = { _ in nil }
    ) throws -> [POSIXPath: UInt64?] {
        let store = try Self.open(found.path, in: root, unless: refusal)
        var batch = KVBatch()
        for edit in edits {
            let entry = try store.entry(named: edit.key)
            guard entry.map({ Self.state(of: $0.bytes, revision: $0.revision) }) == edit.state else {
                throw KVStoreError(.conflict, .batch, key: edit.key, store: found.name)
            }
            batch.require(edit.key, revision: entry?.revision)
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
    private static func open(
        _ path: POSIXPath, in root: ConfinedDirectory, unless refusal: (Descriptor) -> String?
    ) throws -> FileKVStore {
        let fileSystem = root.fileSystem
        var options = FileKVStore.Options(logger: Logger(label: "forge") { _ in SwiftLogNoOpLogHandler() })
        options.lockTimeout = .seconds(2)
        let directory: Descriptor
        do throws(FileSystemError) {
            directory = try root.open(path)
        } catch {
            throw failure(error, path)
        }
        if let reason = refusal(directory) {
            fileSystem.discard(directory)
            throw EditFailure(description: reason)
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
        return KVStoreError(.noStore, .open, store: String(path), underlying: error)
    }

    private static func bytes(_ json: String, replacing old: [UInt8]?) throws -> [UInt8] {
        guard let old else {
            return try ValueEnvelope(schemaVersion: 1, payload: CodedValue(json: json).encoded()).encoded
        }
        let tree = try StoredTree(old)
        return try tree.encoded(CodedValue.edited(json, replacing: tree.value))
    }
}
