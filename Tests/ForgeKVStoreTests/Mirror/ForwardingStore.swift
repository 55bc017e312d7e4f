import ForgeKVStore

/// A store that forwards to another one, by default a remote double, the calls that it does not implement.
protocol ForwardingStore: AsyncKVStoring {
    associatedtype Base: AsyncKVStoring = RemoteDouble
    var base: Base { get }
}

extension ForwardingStore {
    func capabilities() async throws(KVStoreError) -> AsyncKVCapabilities { try await base.capabilities() }

    func entry(named name: String) async throws(KVStoreError) -> KVEntry? { try await base.entry(named: name) }

    func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        try await base.keys(prefix: prefix, after: after, limit: limit)
    }

    func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        try await base.entries(prefix: prefix, after: after, limit: limit, at: revision)
    }

    func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        try await base.commit(batch, timeToLive: timeToLive)
    }

    func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        base.changes(prefix: prefix, from: revision)
    }
}
