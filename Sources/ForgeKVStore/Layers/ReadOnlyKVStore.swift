/// A key-value store that can be read and not changed.
///
/// Every call that would change a value throws ``KVStoreError`` with the code `.readOnly`, also where there would be
/// nothing to do. Changes made through the store underneath are visible here.
public struct ReadOnlyKVStore: KVStoring {
    private let base: any KVStoring

    /// A way to read `base`.
    public init(_ base: any KVStoring) {
        self.base = base
    }

    public func get<T>(_ key: KVKey<T>) -> T? { base.get(key) }

    public func read<T>(_ key: KVKey<T>) throws -> T? { try base.read(key) }

    public func contains<T>(_ key: KVKey<T>) -> Bool { base.contains(key) }

    public func keys() throws -> [String] { try base.keys() }

    public func rawValue(named name: String) throws -> [UInt8]? { try base.rawValue(named: name) }

    public func entry(named name: String) throws -> KVEntry? { try base.entry(named: name) }

    public func snapshot() throws -> KVSnapshot { try base.snapshot() }

    /// Makes durable what others have written.
    public func synchronize() throws { try base.synchronize() }

    public func observeRemoteChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation? {
        base.observeRemoteChanges(handler)
    }
}

// MARK: Refusing

extension ReadOnlyKVStore {
    public func set<T>(_ key: KVKey<T>, value: T) throws { throw KVStoreError(.readOnly, .set, key: key.name) }

    public func remove<T>(_ key: KVKey<T>) throws { throw KVStoreError(.readOnly, .remove, key: key.name) }

    public func removeAll() throws { throw KVStoreError(.readOnly, .removeAll) }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        throw KVStoreError(.readOnly, .set, key: name)
    }

    public func removeValue(named name: String) throws { throw KVStoreError(.readOnly, .remove, key: name) }

    public func commit(_ batch: KVBatch) throws { throw KVStoreError(.readOnly, .batch) }
}
