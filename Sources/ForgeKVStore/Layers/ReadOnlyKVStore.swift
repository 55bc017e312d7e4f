/// A key-value store that can be read and not changed.
///
/// Every call that would change a value throws ``KVStoreError`` with the code `.readOnly`, also where there would be
/// nothing to do. Changes made through the store underneath are visible here.
///
/// This prevents mistakes, not access: ``base`` is the store itself. A function that takes `some KVStoring` does not see
/// it.
public struct ReadOnlyKVStore<Base: KVStoring>: KVReadForwarding {
    public let base: Base

    /// A way to read `base`.
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
