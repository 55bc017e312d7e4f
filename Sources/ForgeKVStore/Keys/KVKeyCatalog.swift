import ForgeFileSystem

/// The keys of an app, declared in one place, so that a test can check their names.
///
/// ```swift
/// var catalog = KVKeyCatalog()
/// catalog.declare(.hasCompletedOnboarding, "whether the user has finished the introduction")
/// catalog.declare(settings, "the user's settings")
/// #expect(catalog.problems.isEmpty)
/// print(catalog)
/// ```
public struct KVKeyCatalog: Sendable {
    /// A declared key.
    public struct Entry: Sendable {
        /// The name.
        public var name: String

        /// The type of the value in Swift syntax.
        public var type: String

        /// The current version of the type.
        public var schemaVersion: UInt32

        /// The earlier versions that can be decoded, in ascending order.
        public var migratedVersions: [UInt32]

        /// The purpose of the value.
        public var description: String
    }

    /// The keys in declaration order.
    public private(set) var entries: [Entry] = []

    /// Creates a catalog of keys without descriptions, by default of none.
    public init<each Value>(_ key: repeat KVKey<each Value>) {
        repeat declare(each key)
    }

    /// Adds a key. ``problems`` reports mistakes.
    public mutating func declare<Value>(_ key: KVKey<Value>, _ description: String = "") {
        entries.append(
            Entry(
                name: key.name, type: String(reflecting: Value.self), schemaVersion: key.schemaVersion,
                migratedVersions: key.migratedVersions, description: description))
    }

    /// The mistakes in the keys, sorted by name.
    public var problems: [KVKeyProblem] {
        var problems: [KVKeyProblem] = []
        for (name, entries) in Dictionary(grouping: entries, by: { KeyName($0.name) }) {
            let types = Set(entries.map(\.type))
            let versions = Set(entries.map(\.schemaVersion))
            if types.count > 1 {
                problems.append(.severalTypes(name: name.string, types: types.sorted()))
            } else if versions.count > 1 {
                problems.append(.severalVersions(name: name.string, versions: versions.sorted()))
            } else if entries.count > 1 {
                problems.append(.duplicate(name: name.string, count: entries.count))
            }
            if name.count > KeyName.maximumLength { problems.append(.tooLong(name: name.string)) }
        }
        // As bytes: `String` equates names that differ only in normalisation.
        let names = Set(entries.map { KeyName($0.name) }).map(\.string)
        for similar in Dictionary(grouping: names, by: { $0.uppercased().lowercased() }).values where similar.count > 1
        {
            problems.append(.similar(names: similar.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }))
        }
        return problems.sorted {
            ($0.name.utf8.lexicographicallyPrecedes($1.name.utf8))
                || (KeyName($0.name) == KeyName($1.name) && $0.description < $1.description)
        }
    }

    /// The names in a store that the catalog does not declare, in byte order: leftovers of an earlier release, or
    /// missing declarations.
    ///
    /// - Throws: ``KVStoreError`` if the keys cannot be listed.
    public func undeclaredNames(in store: some KVRawStoring) throws -> [String] {
        let declared = Set(entries.map { KeyName($0.name) })
        return try store.keys().filter { !declared.contains(KeyName($0)) }
            .sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    }
}

extension KVKeyCatalog.Entry: Hashable, ComparedByBytes {
    struct Identity: Hashable {
        var name: KeyName
        var versions: [UInt32]
        var texts: [String]
    }

    var identity: Identity {
        Identity(name: KeyName(name), versions: [schemaVersion] + migratedVersions, texts: [type, description])
    }
}

extension KVKeyCatalog: CustomStringConvertible {
    /// A table of the keys, sorted by name: type, version and description.
    public var description: String {
        let rows = entries.sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }.map { entry in
            let older = entry.migratedVersions.map(String.init).joined(separator: ", ")
            return [
                KeyName(entry.name).description, entry.type,
                "version \(entry.schemaVersion)" + (older.isEmpty ? "" : ", reads \(older)"), entry.description,
            ]
        }
        let widths = (0..<3).map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            var line = ""
            for column in 0..<3 {
                line += row[column] + String(repeating: " ", count: widths[column] - row[column].count + 2)
            }
            line += row[3]
            while line.last == " " { line.removeLast() }
            return line
        }
        .joined(separator: "\n")
    }
}

/// A mistake in the names of an app's keys.
public enum KVKeyProblem: Sendable {
    /// The key is declared several times.
    case duplicate(name: String, count: Int)

    /// Keys of one name have different types: each type cannot decode the values of the others.
    case severalTypes(name: String, types: [String])

    /// Keys of one name have different schema versions: the older key rejects values of the newer one.
    case severalVersions(name: String, versions: [UInt32])

    /// Names that differ only in case or Unicode normalisation: distinct keys that look alike.
    case similar(names: [String])

    /// The name is longer than ``KVKey/maximumNameLength``.
    case tooLong(name: String)

    /// The affected name, or the first of several.
    public var name: String {
        switch self {
        case .duplicate(let name, _), .severalTypes(let name, _), .severalVersions(let name, _), .tooLong(let name):
            name
        case .similar(let names): names.first ?? ""
        }
    }
}

extension KVKeyProblem: Hashable, ComparedByBytes {
    struct Identity: Hashable {
        var names: [KeyName]

        /// The kind of the mistake, and the types, the versions or their number.
        var text: String
    }

    var identity: Identity {
        guard case .similar(let names) = self else { return Identity(names: [KeyName(name)], text: description) }
        return Identity(names: names.map(KeyName.init), text: description)
    }
}

extension KVKeyProblem: CustomStringConvertible {
    /// A line such as `"theme" is declared 2 times`.
    public var description: String {
        let name = KeyName(name).description
        switch self {
        case .duplicate(_, let count): return "\(name) is declared \(count) times"
        case .severalTypes(_, let types): return "\(name) is declared with \(types.joined(separator: " and "))"
        case .severalVersions(_, let versions):
            return "\(name) is declared with versions \(versions.map(String.init).joined(separator: " and "))"
        case .similar(let names):
            return names.map { name in
                // Escaped, so that invisible differences show.
                "\"" + name.unicodeScalars.map { $0.escaped(asASCII: true) }.joined() + "\""
            }
            .joined(separator: " and ") + " differ in case or normalisation only"
        case .tooLong: return "\(name) is longer than \(KeyName.maximumLength) bytes"
        }
    }
}
