import ForgeCoding

/// An atomic set of changes: all or none take effect, for concurrent readers and across a crash, and only if its
/// requirements hold.
///
/// All names and encoded values together may have 4 GiB, less a few bytes for each; the store's limit on values applies
/// to each of them.
public struct KVBatch: Sendable {
    /// One change.
    public enum Change: Sendable {
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
    public struct Requirement: Sendable {
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

    /// Throws `.invalidKey` if a name is too long, for a layer that looks at names before its base store does.
    func validateNames() throws(KVStoreError) {
        for requirement in requirements { try KeyName(requirement.name).validate(.batch, in: nil) }
        for change in changes { try KeyName(change.name).validate(.batch, in: nil) }
    }

    /// Adds a condition: the key has a value of this revision or, if nil, is absent.
    public mutating func require<T>(_ key: KVKey<T>, revision: UInt64?) { require(key.name, revision: revision) }

    /// Adds a condition: the name has a value of this revision or, if nil, is absent.
    public mutating func require(_ name: String, revision: UInt64?) {
        requirements.append(Requirement(name: name, revision: revision))
    }
}

/// Names are compared by their bytes.
extension KVBatch.Change: Hashable, ComparedByBytes {
    struct Identity: Hashable {
        var name: KeyName
        var bytes: [UInt8]?
    }

    var identity: Identity {
        switch self {
        case .set(let name, let bytes): Identity(name: KeyName(name), bytes: bytes)
        case .remove(let name): Identity(name: KeyName(name), bytes: nil)
        }
    }
}

extension KVBatch.Requirement: Hashable, ComparedByBytes {
    struct Identity: Hashable {
        var name: KeyName
        var revision: UInt64?
    }

    var identity: Identity { Identity(name: KeyName(name), revision: revision) }
}

/// An encoded value and its revision.
public struct KVEntry: Hashable, Sendable {
    /// The encoded value in its envelope, as written by `ForgeCoding`.
    public var bytes: [UInt8]

    /// The number of the write that stored it, which increases with every write to the store, removals included, and
    /// belongs to no other write; each change of a batch counts as one, in their order. Storing a value counts, also if
    /// its bytes are equal to those before; the removal of an absent name may be counted or not, and a batch without
    /// changes or whose requirements do not hold is not a write. So a value that is set again after its removal has a
    /// greater revision than before. Reads never see the revision of a name fall, whichever threads write. A store on
    /// disk continues counting when reopened.
    public var revision: UInt64

    /// Creates an entry.
    public init(bytes: [UInt8], revision: UInt64) {
        self.bytes = bytes
        self.revision = revision
    }
}
