import ForgeCoding
public import ForgeFileSystem
public import Foundation

/// Where values can be imported from.
public struct KVImportSource: Sendable {
    /// The names of the values.
    let names: @Sendable () throws -> [String]

    /// The value of a name in its envelope; nil if it is gone meanwhile.
    let bytes: @Sendable (_ name: String) throws -> [UInt8]?

    /// A key-value store, which has to have raw values and a list of its keys. Values come over byte for byte, the version
    /// of their type included.
    public static func store(_ store: any KVStoring) -> KVImportSource {
        KVImportSource(names: { try store.keys() }, bytes: { try store.rawValue(named: $0) })
    }

    /// The app's own user defaults, or those of a suite, without registered and global ones.
    public static func userDefaults(suiteName: String?) -> KVImportSource {
        store(UserDefaultsKVStore(suiteName: suiteName))
    }

    /// The dictionary in a property list: of numbers, texts, dates, data, and arrays and dictionaries of them.
    ///
    /// - Throws: ``KVStoreError`` with `.undecodable` if it is not a property list with a dictionary at the top.
    public static func propertyList(_ data: Data) throws -> KVImportSource {
        let list: Any
        do {
            list = try PropertyListSerialization.propertyList(from: data, options: [], format: nil)
        } catch {
            throw KVStoreError(.undecodable, .import, underlying: error)
        }
        guard let dictionary = list as? [String: Any] else { throw KVStoreError(.undecodable, .import) }
        var values: [KeyName: Result<[UInt8], KVStoreError>] = [:]
        for (name, object) in dictionary {
            let name = KeyName(UserDefaultsName.decoded(name))
            values[name] =
                PropertyListValue.bytes(of: object).map { .success($0) }
                ?? .failure(KVStoreError(.unsupported, .import, key: name.string))
        }
        return KVImportSource(values)
    }

    /// The object in a JSON text, a value for each of its members.
    ///
    /// Whole numbers become integers, other numbers doubles, `null` a stored nil; dates and bytes have no form in JSON and
    /// come as texts. An object `{"@schema": 2, "@value": …}` is a value of version 2 of its type, as
    /// ``KVStoring/exportJSON(prettyPrinted:)`` writes it.
    ///
    /// - Throws: ``KVStoreError`` with `.undecodable` if it is not a JSON text with an object at the top, or a name occurs
    ///   twice.
    public static func json(_ data: Data) throws -> KVImportSource {
        let tree: CodedValue
        do {
            guard let text = String(validating: data, as: UTF8.self) else {
                throw CodingFailure(.decode, .corrupted("the text is not UTF-8"))
            }
            tree = try CodedValue(json: text)
        } catch {
            throw KVStoreError(.undecodable, .import, underlying: error)
        }
        guard case .map(let members) = tree else { throw KVStoreError(.undecodable, .import) }
        var values: [KeyName: Result<[UInt8], KVStoreError>] = [:]
        for member in members {
            guard case .string(let name) = member.key else { continue }
            values[KeyName(name)] = Result { try JSONMember(member.value).bytes }
                .mapError { KVStoreError(.unencodable, .import, key: name, underlying: $0) }
        }
        return KVImportSource(values)
    }

    /// A file that holds a property list; see ``propertyList(_:)``.
    ///
    /// - Throws: ``KVStoreError``: `.unavailable` if it cannot be read.
    public static func propertyList(
        at url: URL, fileSystem: any POSIXFileSystem = SystemFileSystem()
    ) throws -> KVImportSource {
        try propertyList(try content(of: url, fileSystem))
    }

    /// A file that holds a JSON text; see ``json(_:)``.
    ///
    /// - Throws: ``KVStoreError``: `.unavailable` if it cannot be read.
    public static func json(
        at url: URL, fileSystem: any POSIXFileSystem = SystemFileSystem()
    ) throws -> KVImportSource {
        try json(try content(of: url, fileSystem))
    }

    private static func content(of url: URL, _ fileSystem: any POSIXFileSystem) throws -> Data {
        do throws(FileSystemError) {
            return Data(try fileSystem.readFile(try POSIXPath(url), maximumSizeInBytes: 1 << 30))
        } catch {
            throw KVStoreError(error, .import, store: url.path)
        }
    }
}

extension KVImportSource {
    private init(_ values: [KeyName: Result<[UInt8], KVStoreError>]) {
        self.init(names: { values.keys.map(\.string) }, bytes: { try values[KeyName($0)]?.get() })
    }
}

/// A value as it stands in a JSON text: as itself, or, unless it is of version 1 of its type, with the version.
struct JSONMember {
    private static let schema = "@schema"
    private static let value = "@value"

    /// The value in its envelope.
    let bytes: [UInt8]

    init(_ tree: CodedValue) throws {
        if case .map(let entries) = tree, entries.count == 2, case .integer(let number)? = tree[Self.schema],
            let version = UInt32(exactly: number), let value = tree[Self.value]
        {
            bytes = try Self.envelope(value, version)
        } else {
            bytes = try Self.envelope(tree, 1)
        }
    }

    private static func envelope(_ tree: CodedValue, _ version: UInt32) throws -> [UInt8] {
        ValueEnvelope(format: .binary, schemaVersion: version, payload: try tree.encoded()).encoded
    }

    /// What stands in a JSON text for a value in its envelope.
    static func tree(of bytes: [UInt8]) throws -> CodedValue {
        let envelope = try ValueEnvelope(decoding: bytes)
        let tree = try CodedValue(decoding: envelope)
        guard envelope.schemaVersion != 1 else { return tree }
        return .map([
            .init(.string(schema), .integer(Int64(envelope.schemaVersion))), .init(.string(value), tree),
        ])
    }
}
