import Synchronization

/// A key-value store that keeps a record of the calls that were made of it: which, and with what names, never with what
/// values.
///
/// A call is recorded before it is passed on, so that one that fails is recorded too, and calls of several threads are
/// in the order in which they arrived.
public final class RecordingKVStore: KVStoring {
    /// What a store can be asked to do: one case for each requirement of ``KVStoring``.
    public enum Operation: String, Hashable, Sendable, CaseIterable {
        case get, set, remove, contains, removeAll, read, keys, rawValue, setRawValue, removeValue, entry, snapshot
        case commit, synchronize, observeRemoteChanges
    }

    /// A call.
    public struct Call: Hashable, Sendable, CustomStringConvertible {
        /// What was called.
        public var operation: Operation

        /// The names that it was about: none, one, or those that a batch changes and requires, in its order.
        public var names: [String]

        /// Creates a recorded call.
        public init(_ operation: Operation, _ names: [String] = []) {
            self.operation = operation
            self.names = names
        }

        /// `set "theme"`.
        public var description: String {
            ([operation.rawValue] + names.map { KeyName($0).description }).joined(separator: " ")
        }
    }

    private let base: any KVStoring
    private let recorded = Mutex<[Call]>([])

    /// A record of the calls of `base` that go through this object.
    public init(_ base: any KVStoring) {
        self.base = base
    }

    /// The calls so far, since the record was last cleared.
    public var calls: [Call] { recorded.withLock { $0 } }

    /// Forgets the calls so far.
    public func clear() { recorded.withLock { $0 = [] } }

    private func record(_ operation: Operation, _ names: String...) {
        recorded.withLock { $0.append(Call(operation, names)) }
    }
}

// MARK: Reading

extension RecordingKVStore {
    public func get<T>(_ key: KVKey<T>) -> T? {
        record(.get, key.name)
        return base.get(key)
    }

    public func read<T>(_ key: KVKey<T>) throws -> T? {
        record(.read, key.name)
        return try base.read(key)
    }

    public func contains<T>(_ key: KVKey<T>) -> Bool {
        record(.contains, key.name)
        return base.contains(key)
    }

    public func keys() throws -> [String] {
        record(.keys)
        return try base.keys()
    }

    public func rawValue(named name: String) throws -> [UInt8]? {
        record(.rawValue, name)
        return try base.rawValue(named: name)
    }

    public func entry(named name: String) throws -> KVEntry? {
        record(.entry, name)
        return try base.entry(named: name)
    }

    public func snapshot() throws -> KVSnapshot {
        record(.snapshot)
        return try base.snapshot()
    }

    public func observeRemoteChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation? {
        record(.observeRemoteChanges)
        return base.observeRemoteChanges(handler)
    }
}

// MARK: Writing

extension RecordingKVStore {
    public func set<T>(_ key: KVKey<T>, value: T) throws {
        record(.set, key.name)
        try base.set(key, value: value)
    }

    public func remove<T>(_ key: KVKey<T>) throws {
        record(.remove, key.name)
        try base.remove(key)
    }

    public func removeAll() throws {
        record(.removeAll)
        try base.removeAll()
    }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        record(.setRawValue, name)
        try base.setRawValue(bytes, named: name)
    }

    public func removeValue(named name: String) throws {
        record(.removeValue, name)
        try base.removeValue(named: name)
    }

    public func commit(_ batch: KVBatch) throws {
        recorded.withLock {
            $0.append(Call(.commit, batch.changes.map(\.name) + batch.requirements.map(\.name)))
        }
        try base.commit(batch)
    }

    public func synchronize() throws {
        record(.synchronize)
        try base.synchronize()
    }
}
