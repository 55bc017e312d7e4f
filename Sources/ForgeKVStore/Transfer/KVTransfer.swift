import ForgeCoding
public import ForgeFileSystem
public import Foundation
import SystemPackage

/// Copies values into a store one by one and verifies each by reading it back.
struct KVTransfer {
    private let source: KVImportSource
    private let destination: any KVRawStoring
    private let existing: KVExistingValue

    init(from source: KVImportSource, to destination: any KVRawStoring, existing: KVExistingValue) {
        self.source = source
        self.destination = destination
        self.existing = existing
    }

    /// - Throws: the error of listing the source. Failures of single values are in the report.
    func run() throws -> KVTransferReport {
        var report = KVTransferReport()
        let names = try source.names().sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        for name in names {
            do {
                try carry(name, &report)
            } catch let error as KVStoreError {
                // Looking for a value under the name refuses it.
                let failure = error.code == .invalidKey ? error.of(.import) : error
                report.failures.append(.init(name: name, error: failure))
            } catch {
                report.failures.append(
                    .init(name: name, error: KVStoreError(.damaged, .import, key: name, underlying: error)))
            }
        }
        return report
    }

    private func carry(_ name: String, _ report: inout KVTransferReport) throws {
        guard let bytes = try source.bytes(name) else { return }
        if let present = try destination.rawValue(named: name) {
            if Self.areEqual(present, bytes) {
                report.equalCount += 1
                return
            }
            if existing == .keep {
                report.keptNames.append(name)
                return
            }
        }
        try Self.copy(bytes, named: name, to: destination)
        report.copiedCount += 1
    }

    /// Stores a value and verifies it.
    static func copy(_ bytes: [UInt8], named name: String, to destination: any KVRawStoring) throws {
        try destination.setRawValue(bytes, named: name)
        guard let stored = try destination.rawValue(named: name), areEqual(stored, bytes) else {
            throw KVStoreError(
                .damaged, .import, key: name,
                underlying: CodingFailure(.decode, .corrupted("the value read back differs from the stored one")))
        }
    }

    /// Whether two encoded values are equal, as bytes or as values.
    private static func areEqual(_ one: [UInt8], _ other: [UInt8]) -> Bool {
        guard one != other else { return true }
        do {
            let (one, other) = (try ValueEnvelope(decoding: one), try ValueEnvelope(decoding: other))
            guard one.schemaVersion == other.schemaVersion else { return false }
            // A user defaults store converts values to a form of its own.
            return try CodedValue(decoding: one).encoded() == CodedValue(decoding: other).encoded()
        } catch {
            return false  // Undecodable values are compared as bytes.
        }
    }
}

/// The treatment of existing values by an import.
public enum KVExistingValue: Hashable, Sendable {
    /// Keeps it, and lists its name in the report.
    case keep

    /// Replaces it.
    case replace
}

/// The result of copying values between stores.
public struct KVTransferReport: Sendable {
    /// A value that was not copied.
    public struct Failure: Sendable {
        /// The name of the value.
        public var name: String

        /// The reason, without the value.
        public var error: KVStoreError
    }

    /// The number of values stored and verified.
    public internal(set) var copiedCount = 0

    /// The number of values that were already equal.
    public internal(set) var equalCount = 0

    /// The names whose existing, different values were kept.
    public internal(set) var keptNames: [String] = []

    /// The values that were not copied, sorted by name.
    public internal(set) var failures: [Failure] = []

    /// Whether every value was copied, was already equal, or had an existing value that was kept.
    public var isComplete: Bool { failures.isEmpty }
}

extension KVTransferReport: CustomStringConvertible {
    /// A summary line, then a line for each value that was not copied.
    public var description: String {
        let summary =
            "\(copiedCount) copied, \(equalCount) there already, \(keptNames.count) kept, \(failures.count) failed"
        return ([summary] + failures.map { "  \($0.error)" }).joined(separator: "\n")
    }
}

extension KVRawStoring {
    /// Imports the values of a source, verifying each by reading it back.
    ///
    /// Values are stored one by one, in the order of their names. After an interruption or a crash, a second call
    /// continues: it skips values that are already equal. The source is not changed.
    ///
    /// ```swift
    /// let report = try store.importValues(from: .userDefaults(suiteName: nil))
    /// for failure in report.failures { logger.warning("\(failure.error)") }
    /// ```
    ///
    /// - Parameters:
    ///   - source: The source of the values.
    ///   - existing: The treatment of different values under the same name.
    /// - Returns: The number of values stored, and the values that were not stored with the reasons.
    /// - Throws: ``KVStoreError`` if the names of the source cannot be listed. Failures of single values are in the
    ///   report.
    @discardableResult
    public func importValues(
        from source: KVImportSource, existing: KVExistingValue = .keep
    ) throws -> KVTransferReport {
        try KVTransfer(from: source, to: self, existing: existing).run()
    }

    /// Copies all values to another store, verifying each by reading it back; see ``importValues(from:existing:)``.
    @discardableResult
    public func exportValues(
        to destination: some KVRawStoring, existing: KVExistingValue = .keep
    ) throws -> KVTransferReport {
        try destination.importValues(from: .store(self), existing: existing)
    }

    /// Exports all values as a JSON object, sorted by name.
    ///
    /// The result is meant for people and other programs. Dates (to the millisecond), bytes, UUIDs, NaN and infinities
    /// become strings, and import as strings, which cannot be decoded as the original types. To keep every value, call
    /// ``exportValues(to:existing:)``. A value whose schema version is not 1 becomes `{"@schema": 2, "@value": …}`, and
    /// so does an object with a member `@schema`.
    ///
    /// - Parameter prettyPrinted: One line per element instead of a single line.
    /// - Returns: The text, and the values that could not be read, or that JSON cannot represent, with the reasons.
    /// - Throws: ``KVStoreError`` if the keys cannot be listed.
    public func exportJSON(
        prettyPrinted: Bool = false
    ) throws -> (json: String, failures: [KVTransferReport.Failure]) {
        var object = JSONObjectText(prettyPrinted: prettyPrinted)
        var failures: [KVTransferReport.Failure] = []
        for name in try keys().sorted(by: { $0.utf8.lexicographicallyPrecedes($1.utf8) }) {
            do {
                guard let bytes = try rawValue(named: name) else { continue }
                try object.append(name, JSONMember.tree(of: bytes))
            } catch let error as KVStoreError {
                failures.append(.init(name: name, error: error))
            } catch {
                let isDecoded = (error as? CodingFailure)?.operation == .encode
                let code: KVStoreError.Code = isDecoded ? .unencodable : .undecodable
                failures.append(.init(name: name, error: KVStoreError(code, .export, key: name, underlying: error)))
            }
        }
        return (object.text, failures)
    }
}

/// The JSON form of a value: the value itself, or an object with its schema version and the value, if the version is
/// not 1 or the value could be mistaken for such an object.
struct JSONMember {
    private static let schema = "@schema"
    private static let value = "@value"

    /// The maximum nesting depth of a value, plus the object around it.
    static let maximumDepth = CodedValue.maximumDepth + 1

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
        ValueEnvelope(schemaVersion: version, payload: try tree.encoded()).encoded
    }

    /// The JSON form of a value in its envelope.
    static func tree(of bytes: [UInt8]) throws -> CodedValue {
        let envelope = try ValueEnvelope(decoding: bytes)
        let tree = try CodedValue(decoding: envelope)
        guard envelope.schemaVersion != 1 || tree[schema] != nil else { return tree }
        return .map([
            .init(.string(schema), .integer(Int64(envelope.schemaVersion))), .init(.string(value), tree),
        ])
    }
}

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
    /// ``KVRawStoring/exportJSON(prettyPrinted:)``. A value that nests too deep, or has a number out of the range of a
    /// `Double` or half a surrogate pair, is a failure of its own.
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
