/// A type-erased ``KVTransactionalStoring``; see ``AnyKVStore``.
public struct AnyKVTransactionalStore: KVReadForwarding, KVWriteForwarding, KVTransactionalStoring {
    public let base: AnyKVStore
    private let transactional: any KVTransactionalStoring

    /// Erases the type of a store.
    public init(_ store: any KVTransactionalStoring) {
        base = AnyKVStore(store)
        transactional = store
    }

    public func keys() throws -> [String] { try transactional.keys() }

    public func rawValue(named name: String) throws -> [UInt8]? { try transactional.rawValue(named: name) }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try transactional.setRawValue(bytes, named: name)
    }

    public func removeValue(named name: String) throws { try transactional.removeValue(named: name) }

    public func entry(named name: String) throws -> KVEntry? { try transactional.entry(named: name) }

    public func snapshot() throws -> KVSnapshot { try transactional.snapshot() }

    public func commit(_ batch: KVBatch) throws { try transactional.commit(batch) }

    public func synchronize() throws { try transactional.synchronize() }

    public func observeRemoteChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation? {
        transactional.observeRemoteChanges(handler)
    }
}
