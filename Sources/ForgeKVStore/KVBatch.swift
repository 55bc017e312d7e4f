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

    /// What has to hold before the first of them.
    public private(set) var requirements: [Requirement] = []

    /// No changes.
    public init() {}

    /// Adds the storing of a value.
    ///
    /// - Throws: ``KVStoreError`` with the code `.unencodable`; nothing was added.
    public mutating func set<T>(_ key: KVKey<T>, value: T) throws {
        do {
            changes.append(.set(name: key.name, bytes: try ValueTable.coder.encode(value)))
        } catch {
            throw KVStoreError(.unencodable, .batch, key: key.name, underlying: error)
        }
    }

    /// Adds the removal of a key; without effect where there is none.
    public mutating func remove<T>(_ key: KVKey<T>) {
        changes.append(.remove(name: key.name))
    }

    /// Adds a change.
    public mutating func append(_ change: Change) {
        changes.append(change)
    }

    /// Makes the batch depend on what is stored under a name: a value of this revision, or, if it is nil, none.
    public mutating func require(_ name: String, revision: UInt64?) {
        requirements.append(Requirement(name: name, revision: revision))
    }
}
