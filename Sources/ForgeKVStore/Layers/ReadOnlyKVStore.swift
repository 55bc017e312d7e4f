/// A read-only view of a key-value store.
///
/// Every call that would change a value throws ``KVStoreError`` with the code `.readOnly`, even if it would have no
/// effect. Changes made through the base store are visible.
///
/// This prevents mistakes, not access: ``base`` is the store itself. A function that takes `some KVStoring` cannot
/// access it.
public struct ReadOnlyKVStore<Base: KVStoring>: KVReadForwarding {
    public let base: Base

    /// Creates a read-only view of `base`.
    public init(_ base: Base) {
        self.base = base
    }

    public func set<T>(_ key: KVKey<T>, value: T) throws { throw KVStoreError(.readOnly, .set, key: key.name) }

    public func remove<T>(_ key: KVKey<T>) throws { throw KVStoreError(.readOnly, .remove, key: key.name) }

    public func removeAll() throws { throw KVStoreError(.readOnly, .removeAll) }
}

extension ReadOnlyKVStore: KVRawStoring where Base: KVRawStoring {
    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        throw KVStoreError(.readOnly, .set, key: name)
    }

    public func removeValue(named name: String) throws { throw KVStoreError(.readOnly, .remove, key: name) }
}

extension ReadOnlyKVStore: KVTransactionalStoring where Base: KVTransactionalStoring {
    public func commit(_ batch: KVBatch) throws { throw KVStoreError(.readOnly, .batch) }
}

extension ReadOnlyKVStore: KVObservableStoring where Base: KVObservableStoring {}

extension ReadOnlyKVStore: KVIssueReporting where Base: KVIssueReporting {}
