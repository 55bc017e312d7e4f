import Synchronization

/// A key-value store that records its calls: operations and names, never values.
///
/// A call is recorded before it is forwarded, so failed calls are included, and concurrent calls are in the order of
/// arrival.
public final class RecordingKVStore<Base: KVStoring>: KVStoring {
    private let base: Base
    private let recorded = Mutex<[KVStoreCall]>([])

    /// Records the calls of `base` made through this object.
    public init(_ base: Base) {
        self.base = base
    }

    /// The calls since the record was last cleared.
    public var calls: [KVStoreCall] { recorded.withLock { $0 } }

    /// Clears the record.
    public func clear() { recorded.withLock { $0 = [] } }

    private func record(_ operation: KVStoreCall.Operation, _ names: [String] = []) {
        recorded.withLock { $0.append(KVStoreCall(operation, names)) }
    }
}

// MARK: Values

extension RecordingKVStore {
    public func get<T>(_ key: KVKey<T>) -> T? {
        record(.get, [key.name])
        return base.get(key)
    }

    public func read<T>(_ key: KVKey<T>) throws -> T? {
        record(.read, [key.name])
        return try base.read(key)
    }

    public func contains<T>(_ key: KVKey<T>) -> Bool {
        record(.contains, [key.name])
        return base.contains(key)
    }

    public func set<T>(_ key: KVKey<T>, value: T) throws {
        record(.set, [key.name])
        try base.set(key, value: value)
    }

    public func remove<T>(_ key: KVKey<T>) throws {
        record(.remove, [key.name])
        try base.remove(key)
    }

    public func removeAll() throws {
        record(.removeAll)
        try base.removeAll()
    }
}

// MARK: Raw values

extension RecordingKVStore: KVRawStoring where Base: KVRawStoring {
    public func keys() throws -> [String] {
        record(.keys)
        return try base.keys()
    }

    public func rawValue(named name: String) throws -> [UInt8]? {
        record(.rawValue, [name])
        return try base.rawValue(named: name)
    }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        record(.setRawValue, [name])
        try base.setRawValue(bytes, named: name)
    }

    public func removeValue(named name: String) throws {
        record(.removeValue, [name])
        try base.removeValue(named: name)
    }
}

// MARK: Transactions

extension RecordingKVStore: KVTransactionalStoring where Base: KVTransactionalStoring {
    public func entry(named name: String) throws -> KVEntry? {
        record(.entry, [name])
        return try base.entry(named: name)
    }

    public func snapshot() throws -> KVSnapshot {
        record(.snapshot)
        return try base.snapshot()
    }

    public func commit(_ batch: KVBatch) throws {
        record(.commit, batch.changes.map(\.name) + batch.requirements.map(\.name))
        try base.commit(batch)
    }

    public func synchronize() throws {
        record(.synchronize)
        try base.synchronize()
    }

    public func observeRemoteChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation? {
        record(.observeRemoteChanges)
        return base.observeRemoteChanges(handler)
    }
}

extension RecordingKVStore: KVObservableStoring where Base: KVObservableStoring {
    public func observeChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation {
        base.observeChanges(handler)
    }
}

extension RecordingKVStore: KVIssueReporting where Base: KVIssueReporting {
    public func report(_ issue: KVStoreIssue) { base.report(issue) }
}
