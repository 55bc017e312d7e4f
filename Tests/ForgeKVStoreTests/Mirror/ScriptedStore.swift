import ForgeFileSystem
import ForgeKVStore
import Synchronization

/// A store whose stream delivers what a test tells it to.
final class ScriptedStore: ForwardingStore {
    let base = RemoteDouble()
    private let updates = Mutex<[AsyncKVUpdate]>([])

    /// Whether an update is reported by the elements of `next`.
    let isSplit: Bool

    /// Whether writes return their revision.
    let returnsRevisions: Bool

    let connectionCount = Atomic(0)
    let readCount = Atomic(0)

    /// Whether reads of entries fail.
    let failsReads = Atomic(false)

    init(isSplit: Bool = false, returnsRevisions: Bool = true) {
        (self.isSplit, self.returnsRevisions) = (isSplit, returnsRevisions)
    }

    func deliver(_ changes: [AsyncKVChange], upTo revision: UInt64? = nil) {
        updates.withLock { $0.append(AsyncKVUpdate(changes: changes, revision: revision)) }
    }

    /// Whether everything was taken.
    var isEmpty: Bool { updates.withLock { $0.isEmpty } }

    fileprivate func take() -> AsyncKVUpdate? { updates.withLock { $0.isEmpty ? nil : $0.removeFirst() } }

    func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
        defer { readCount.add(1, ordering: .relaxed) }
        if failsReads.load(ordering: .relaxed) { throw KVStoreError(.unavailable(.server), .read, key: name) }
        return try await base.entry(named: name)
    }

    func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        let revision = try await base.commit(batch, timeToLive: timeToLive)
        return returnsRevisions ? revision : nil
    }

    func changes(prefix: String, from revision: UInt64?) -> AsyncKVChanges {
        connectionCount.add(1, ordering: .relaxed)
        return AsyncKVChanges(isSplit ? SplitSource(self) : ScriptedSource(self))
    }
}

/// Delivers whole updates.
private final class ScriptedSource: AsyncKVChangeSource {
    private let store: ScriptedStore

    init(_ store: ScriptedStore) { self.store = store }

    func next() async throws(KVStoreError) -> AsyncKVChange? { try await nextUpdate()?.changes.first }

    func nextUpdate() async throws(KVStoreError) -> AsyncKVUpdate? {
        while !Task.isCancelled {
            if let update = store.take() { return update }
            do { try await Task.sleep(for: .milliseconds(1)) } catch { return nil }
        }
        return nil
    }
}

/// Delivers single changes, of which the protocol makes updates.
private final class SplitSource: AsyncKVChangeSource {
    private let source: ScriptedSource

    init(_ store: ScriptedStore) { source = ScriptedSource(store) }

    func next() async throws(KVStoreError) -> AsyncKVChange? { try await source.next() }
}
