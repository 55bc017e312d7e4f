/// All names and values of a store at one instant.
///
/// Names are compared byte by byte, as keys are.
public struct KVSnapshot: Sendable {
    private let entries: [KeyName: KVEntry]

    /// Creates a snapshot of entries; the later of two entries with one name wins.
    public init(_ entries: some Sequence<(name: String, entry: KVEntry)>) {
        self.entries = Dictionary(entries.map { (KeyName($0.name), $0.entry) }) { _, later in later }
    }

    init(_ entries: [KeyName: KVEntry]) {
        self.entries = entries
    }

    /// The number of names.
    public var count: Int { entries.count }

    /// Whether the snapshot has no names.
    public var isEmpty: Bool { entries.isEmpty }

    /// The names, in no particular order.
    public var names: [String] { entries.keys.map(\.string) }

    /// The entry of a name; nil if it is absent.
    public subscript(name: String) -> KVEntry? { entries[KeyName(name)] }

    /// The value of a key; nil if it is absent.
    ///
    /// - Throws: ``KVStoreError``: `.undecodable` or `.newerSchema(version:)` if the value is not of the key's type.
    public func read<T>(_ key: KVKey<T>) throws -> T? {
        guard let entry = entries[key.identity] else { return nil }
        do {
            return try ValueTable.decode(entry.bytes, as: key)
        } catch {
            throw KVStoreError(decoding: error, .read, key: key.name)
        }
    }
}

extension KVSnapshot {
    /// The values whose names begin with a prefix, with their keys, in the order of the bytes of their names.
    ///
    /// ```swift
    /// let notes = try store.snapshot().values(of: String.self, prefix: "note.")
    /// ```
    ///
    /// - Throws: ``KVStoreError``: `.undecodable` or `.newerSchema(version:)` for the first value that is not of the
    ///   type.
    /// - Complexity: O(*n* + *m* log *m*) for *n* names, *m* of them with the prefix
    public func values<T: Codable & Sendable>(
        of type: T.Type, prefix: String
    ) throws -> [(key: KVKey<T>, value: T)] {
        let names = entries.keys.map(\.string).filter { $0.utf8.starts(with: prefix.utf8) }
        return try names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }.compactMap { name in
            let key = KVKey<T>(name)
            return try read(key).map { (key, $0) }
        }
    }
}

extension KVSnapshot: Sequence {
    /// The names with their entries, in no particular order.
    public func makeIterator() -> some IteratorProtocol<(name: String, entry: KVEntry)> {
        entries.lazy.map { (name: $0.key.string, entry: $0.value) }.makeIterator()
    }
}
