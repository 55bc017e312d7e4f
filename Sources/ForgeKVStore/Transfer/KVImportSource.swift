import ForgeCoding
public import ForgeFileSystem
public import Foundation
import SystemPackage

/// The source of an import.
public struct KVImportSource: Sendable {
    /// The names of the values.
    let names: @Sendable () throws -> [String]

    /// The value of a name in its envelope; nil if it no longer exists.
    let bytes: @Sendable (_ name: String) throws -> [UInt8]?

    /// A key-value store. Values are copied byte for byte, including their schema versions.
    public static func store(_ store: any KVRawStoring) -> KVImportSource {
        KVImportSource(names: { try store.keys() }, bytes: { try store.rawValue(named: $0) })
    }

    /// The values whose names `isIncluded` accepts, for example without those that the system puts into an app's user
    /// defaults.
    public func filter(_ isIncluded: @escaping @Sendable (_ name: String) -> Bool) -> KVImportSource {
        let (names, bytes) = (names, bytes)
        return KVImportSource(
            names: { try names().filter(isIncluded) }, bytes: { isIncluded($0) ? try bytes($0) : nil })
    }

    /// The app's user defaults, or those of a suite, without registered and global ones.
    public static func userDefaults(suiteName: String?) -> KVImportSource {
        store(UserDefaultsKVStore(suiteName: suiteName))
    }

    /// The dictionary at the top of a property list: numbers, strings, dates, data, and arrays and dictionaries of
    /// them.
    ///
    /// - Throws: ``KVStoreError`` with `.undecodable` if the data is not such a property list.
    public static func propertyList(_ data: Data) throws -> KVImportSource {
        let dictionary: [String: Any]
        do throws(CodingFailure) {
            dictionary = try PropertyListParser.dictionary(in: data)
        } catch {
            throw KVStoreError(.undecodable, .import, underlying: error)
        }
        var values: [KeyName: Result<[UInt8], KVStoreError>] = [:]
        for (name, object) in dictionary {
            let name = KeyName(UserDefaultsName.decoded(name))
            values[name] = Result { () throws(CodingFailure) in try PropertyListValue.encoded(object) }
                .mapError { KVStoreError(.undecodable, .import, key: name.string, underlying: $0) }
        }
        return KVImportSource(values)
    }

    /// The members of a JSON object.
    ///
    /// Numbers without a fraction or exponent become integers, others a `Double`, or a `Decimal` if a `Double` would
    /// change them, and `null` a stored nil. JSON has no dates or bytes: they stay strings. An object
    /// `{"@schema": 2, "@value": …}` is a value of schema version 2, as written by
    /// ``KVRawStoring/exportJSON(prettyPrinted:)``. A value that nests too deep is a failure of its own.
    ///
    /// - Throws: ``KVStoreError`` with `.undecodable` if the data is not a JSON object, or has a duplicate name.
    public static func json(_ data: Data) throws -> KVImportSource {
        let members: JSONMembers
        do {
            guard let text = String(validating: data, as: UTF8.self) else {
                throw CodingFailure(.decode, .corrupted("the text is not UTF-8"))
            }
            members = try JSONMembers(text, levels: JSONMember.maximumDepth)
        } catch {
            throw KVStoreError(.undecodable, .import, underlying: error)
        }
        var values: [KeyName: Result<[UInt8], KVStoreError>] = [:]
        for (name, value) in members.members {
            values[KeyName(name)] = Result { try JSONMember(value.get()).bytes }
                .mapError { KVStoreError(.unencodable, .import, key: name, underlying: $0) }
        }
        return KVImportSource(values)
    }

    /// The property list in a file; see ``propertyList(_:)``.
    ///
    /// - Throws: ``KVStoreError``: `.unavailable` if it cannot be read.
    public static func propertyList(
        at url: URL, fileSystem: any POSIXFileSystem = SystemFileSystem()
    ) throws -> KVImportSource {
        try propertyList(try content(of: url, fileSystem))
    }

    /// The JSON object in a file; see ``json(_:)``.
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
