import ForgeCoding

/// An atomic set of changes: all or none take effect, for concurrent readers and across a crash, and only if its
/// requirements hold.
///
/// All names and encoded values together may have 4 GiB, less a few bytes for each; the store's limit on values applies
/// to each of them.
public struct KVBatch: Sendable {
    /// One change.
    public enum Change: Hashable, Sendable {
        /// Stores an encoded value.
        case set(name: String, bytes: [UInt8])

        /// Removes a name and its value.
        case remove(name: String)

        /// The name that changes.
        public var name: String {
            switch self {
            case .set(let name, _), .remove(let name): name
            }
        }
    }

    /// A condition on a name.
    public struct Requirement: Hashable, Sendable {
        public var name: String

        /// The required revision of the value; nil requires the name to be absent.
        public var revision: UInt64?
    }

    /// The changes in order.
    public private(set) var changes: [Change] = []

    /// The type of each change's value, if known.
    private(set) var types: [WrittenType?] = []

    /// The conditions to check before the first change.
    public private(set) var requirements: [Requirement] = []

    /// Creates an empty batch.
    public init() {}

    /// Adds setting a value.
    ///
    /// - Throws: ``KVStoreError`` with the code `.unencodable`; the batch is unchanged.
    public mutating func set<T>(_ key: KVKey<T>, value: T) throws {
        do {
            changes.append(.set(name: key.name, bytes: try ValueTable.encode(value, for: key)))
        } catch {
            throw KVStoreError(.unencodable, .batch, key: key.name, underlying: error)
        }
        types.append(WrittenType(key))
    }

    /// Adds removing a key; it has no effect if the key is absent.
    public mutating func remove<T>(_ key: KVKey<T>) {
        append(.remove(name: key.name))
    }

    /// Adds a change.
    public mutating func append(_ change: Change) {
        append(change, nil)
    }

    /// Adds a change to a value whose type may be known.
    mutating func append(_ change: Change, _ type: WrittenType?) {
        changes.append(change)
        types.append(type)
    }

    /// The batch with transformed names.
    func mapped(name: (String) throws -> String) rethrows -> KVBatch {
        var batch = KVBatch()
        for (change, type) in zip(changes, types) {
            switch change {
            case .set(let old, let value): batch.append(.set(name: try name(old), bytes: value), type)
            case .remove(let old): batch.append(.remove(name: try name(old)), nil)
            }
        }
        for requirement in requirements { batch.require(try name(requirement.name), revision: requirement.revision) }
        return batch
    }

    /// Adds a condition: the key has a value of this revision or, if nil, is absent.
    public mutating func require<T>(_ key: KVKey<T>, revision: UInt64?) { require(key.name, revision: revision) }

    /// Adds a condition: the name has a value of this revision or, if nil, is absent.
    public mutating func require(_ name: String, revision: UInt64?) {
        requirements.append(Requirement(name: name, revision: revision))
    }
}

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
    /// - Parameters:
    ///   - type: The type of the values.
    ///   - prefix: The prefix of the names, compared byte by byte.
    ///   - migrations: Those of the keys of the values, if the type has had several versions.
    /// - Returns: The values with their keys, which have these migrations.
    /// - Throws: ``KVStoreError``: `.undecodable` or `.newerSchema(version:)` for the first value that is not of the
    ///   type.
    /// - Complexity: O(*n* + *m* log *m*) for *n* names, *m* of them with the prefix
    public func values<T: Codable & Sendable>(
        of type: T.Type, prefix: String, migrations: [KVMigration<T>] = []
    ) throws -> [(key: KVKey<T>, value: T)] {
        let names = entries.keys.map(\.string).filter { $0.utf8.starts(with: prefix.utf8) }
        let schema = KVKey("", migrations: migrations).schema
        return try names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }.compactMap { name in
            let key = KVKey(KeyName(name), schema)
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

/// An encoded value and its revision.
public struct KVEntry: Hashable, Sendable {
    /// The encoded value in its envelope, as written by `ForgeCoding`.
    public var bytes: [UInt8]

    /// The number of the write that stored it, which increases with every write to the store; each change of a batch
    /// counts as one. A store on disk continues counting when reopened.
    public var revision: UInt64

    /// Creates an entry.
    public init(bytes: [UInt8], revision: UInt64) {
        self.bytes = bytes
        self.revision = revision
    }
}
