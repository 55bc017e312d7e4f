/// A store that forwards its writes to another one, for stores that change only how values are read.
///
/// Together with ``KVReadForwarding``, a wrapper need implement only the calls that it changes.
public protocol KVWriteForwarding<Base>: KVStoring {
    associatedtype Base: KVStoring

    /// The base store.
    var base: Base { get }
}

extension KVWriteForwarding {
    public func set<T>(_ key: KVKey<T>, value: T) throws { try base.set(key, value: value) }

    public func remove<T>(_ key: KVKey<T>) throws { try base.remove(key) }

    public func removeAll() throws { try base.removeAll() }
}

extension KVWriteForwarding where Base: KVRawStoring {
    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try base.setRawValue(bytes, named: name)
    }

    public func removeValue(named name: String) throws { try base.removeValue(named: name) }
}

extension KVWriteForwarding where Base: KVTransactionalStoring {
    public func commit(_ batch: KVBatch) throws { try base.commit(batch) }
}
