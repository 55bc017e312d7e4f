/// A key-value store with revisions, atomic batches, snapshots and a call that makes writes durable.
public protocol KVTransactionalStoring: KVRawStoring {
    /// The encoded value of a name and its revision; nil if it is absent.
    ///
    /// - Throws: ``KVStoreError``.
    func entry(named name: String) throws -> KVEntry?

    /// All names and values at one instant.
    ///
    /// - Throws: ``KVStoreError``.
    func snapshot() throws -> KVSnapshot

    /// Applies the changes of a batch atomically if its requirements hold.
    ///
    /// - Throws: ``KVStoreError``: `.conflict` if a requirement does not hold. Nothing was changed unless the code is
    ///   `.durabilityUnknown`.
    func commit(_ batch: KVBatch) throws

    /// Waits until every earlier write is durable against a power cut.
    ///
    /// - Throws: ``KVStoreError``.
    func synchronize() throws

    /// Observes changes made by other processes to a shared store.
    ///
    /// - Parameter handler: Called with the names whose values may have changed, or nil if any may have. Calls come one
    ///   at a time, in another thread, after the change has become visible to reads; several changes may be coalesced.
    /// - Returns: The observation, which ends when it is released; nil if the store is not shared.
    func observeRemoteChanges(_ handler: @escaping @Sendable (_ names: [String]?) -> Void) -> KVObservation?
}
