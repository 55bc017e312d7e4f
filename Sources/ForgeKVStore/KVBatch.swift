import ForgeCoding

/// Changes that are made together: all of them or none, in every thread that reads and across a crash, and only if what
/// was required holds at that moment.
public struct KVBatch: Sendable {
    /// One change.
    public enum Change: Hashable, Sendable {
        /// Stores a value that is encoded already.
        case set(name: String, bytes: [UInt8])

        /// Removes a name and its value.
        case remove(name: String)

        /// The name that it is about.
        public var name: String {
            switch self {
            case .set(let name, _), .remove(let name): name
            }
        }
    }

    /// What has to hold of a name.
    public struct Requirement: Hashable, Sendable {
        public var name: String

        /// The revision that the value must have; nil: there must be none.
        public var revision: UInt64?
    }

    /// The changes in the order in which they are made.
    public private(set) var changes: [Change] = []

    /// For each change the type of its value, if it is known.
    private(set) var types: [WrittenType?] = []

    /// What has to hold before the first of them.
    public private(set) var requirements: [Requirement] = []

    /// No changes.
    public init() {}

    /// Adds the storing of a value.
    ///
    /// - Throws: ``KVStoreError`` with the code `.unencodable`; nothing was added.
    public mutating func set<T>(_ key: KVKey<T>, value: T) throws {
        do {
            changes.append(.set(name: key.name, bytes: try ValueTable.encode(value, for: key)))
        } catch {
            throw KVStoreError(.unencodable, .batch, key: key.name, underlying: error)
        }
        types.append(WrittenType(key))
    }

    /// Adds the removal of a key; without effect where there is none.
    public mutating func remove<T>(_ key: KVKey<T>) {
        append(.remove(name: key.name))
    }

    /// Adds a change.
    public mutating func append(_ change: Change) {
        append(change, nil)
    }

    /// Adds a change to a value of a type that is known or not.
    mutating func append(_ change: Change, _ type: WrittenType?) {
        changes.append(change)
        types.append(type)
    }

    /// The same batch with other names, and values in another form.
    func mapped(
        name: (String) throws -> String, bytes: ([UInt8]) throws -> [UInt8] = { $0 }
    ) rethrows -> KVBatch {
        var batch = KVBatch()
        for (change, type) in zip(changes, types) {
            switch change {
            case .set(let old, let value): batch.append(.set(name: try name(old), bytes: try bytes(value)), type)
            case .remove(let old): batch.append(.remove(name: try name(old)), nil)
            }
        }
        for requirement in requirements { batch.require(try name(requirement.name), revision: requirement.revision) }
        return batch
    }

    /// Makes the batch depend on what is stored under a name: a value of this revision, or, if it is nil, none.
    public mutating func require(_ name: String, revision: UInt64?) {
        requirements.append(Requirement(name: name, revision: revision))
    }
}
