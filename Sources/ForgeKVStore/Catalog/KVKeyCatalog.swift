/// The keys of an app, declared in one place, so that mistakes in their names are found by a test and not by a user.
///
/// ```swift
/// var catalog = KVKeyCatalog()
/// catalog.declare(.hasCompletedOnboarding, "whether the introduction was seen to its end")
/// catalog.declare(settings, "what the user chose")
/// #expect(catalog.problems.isEmpty)
/// print(catalog)
/// ```
public struct KVKeyCatalog: Sendable {
    /// A key that was declared.
    public struct Entry: Hashable, Sendable {
        /// The name.
        public var name: String

        /// The type of the value, as Swift writes it.
        public var type: String

        /// The version of the type that is written.
        public var schemaVersion: UInt32

        /// The earlier versions that can be read, in ascending order.
        public var migratedVersions: [UInt32]

        /// What the value is for.
        public var description: String
    }

    /// The keys in the order in which they were declared.
    public private(set) var entries: [Entry] = []

    /// A catalog without keys.
    public init() {}

    /// A catalog of these keys, without descriptions.
    public init<each Value>(_ key: repeat KVKey<each Value>) {
        repeat declare(each key)
    }

    /// Adds a key. Mistakes are reported by ``problems``.
    public mutating func declare<Value>(_ key: KVKey<Value>, _ description: String = "") {
        entries.append(
            Entry(
                name: key.name, type: String(reflecting: Value.self), schemaVersion: key.schemaVersion,
                migratedVersions: key.migratedVersions, description: description))
    }

    /// What is wrong with the keys, in the order of their names.
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
        // Strings are compared as Unicode does: names that differ in their normalisation alone are one here.
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

    /// The names in a store that no key of the catalog has, in the order of their bytes: left behind by an earlier release,
    /// or forgotten here.
    ///
    /// - Throws: ``KVStoreError`` if the store cannot list its keys.
    public func undeclaredNames(in store: some KVStoring) throws -> [String] {
        let declared = Set(entries.map { KeyName($0.name) })
        return try store.keys().filter { !declared.contains(KeyName($0)) }
            .sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    }
}

extension KVKeyCatalog: CustomStringConvertible {
    /// The inventory: a line for each key in the order of the names, its type, version and description in columns.
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
