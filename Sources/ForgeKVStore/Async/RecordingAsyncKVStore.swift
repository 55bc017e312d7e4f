import Synchronization

/// An asynchronous store that records its calls: operations and names, never values.
///
/// It records calls of the requirements of ``AsyncKVStoring``, so the record shows what the methods built on them cost:
/// an ``AsyncKVStoring/update(_:default:timeToLive:_:)`` is a `.read` and a `.batch` for each attempt. A call is
/// recorded before it is forwarded, so failed calls are included, and concurrent calls are in the order of arrival. A
/// call of ``changes(prefix:from:)`` is recorded once, not each change that it reports.
public final class RecordingAsyncKVStore<Base: AsyncKVStoring>: AsyncKVStoring {
    private let base: Base
    private let recorded = Mutex<[AsyncKVStoreCall]>([])

    /// Records the calls of `base` made through this object.
    public init(_ base: Base) {
        self.base = base
    }

    /// The calls since the record was last cleared.
    public var calls: [AsyncKVStoreCall] { recorded.withLock { $0 } }

    /// Clears the record.
    public func clear() { recorded.withLock { $0 = [] } }

    private func record(_ call: AsyncKVStoreCall) {
        recorded.withLock { $0.append(call) }
    }

    public func capabilities() async throws(AsyncKVStoreError) -> AsyncKVCapabilities {
        record(AsyncKVStoreCall(.capabilities))
        return try await base.capabilities()
    }

    public func entry(named name: String) async throws(AsyncKVStoreError) -> KVEntry? {
        record(AsyncKVStoreCall(.read, [name]))
        return try await base.entry(named: name)
    }

    public func keys(prefix: String, after: String?, limit: Int) async throws(AsyncKVStoreError) -> AsyncKVPage {
        record(AsyncKVStoreCall(.keys, [prefix]))
        return try await base.keys(prefix: prefix, after: after, limit: limit)
    }

    public func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(AsyncKVStoreError) -> AsyncKVEntryPage {
        record(AsyncKVStoreCall(.keys, [prefix]))
        return try await base.entries(prefix: prefix, after: after, limit: limit, at: revision)
    }

    @discardableResult
    public func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(AsyncKVStoreError) -> UInt64? {
        record(AsyncKVStoreCall(batch))
        return try await base.commit(batch, timeToLive: timeToLive)
    }

    public func changes(prefix: String, from revision: UInt64?) -> AsyncKVChanges {
        record(AsyncKVStoreCall(.changes, [prefix]))
        return base.changes(prefix: prefix, from: revision)
    }
}
