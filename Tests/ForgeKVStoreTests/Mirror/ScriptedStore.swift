import ForgeFileSystem
import ForgeKVStore
import Synchronization

/// A store whose stream delivers what a test tells it to.
final class ScriptedStore: ForwardingStore {
    let base = RemoteDouble()
    private let updates = Mutex<[KVChangeSet]>([])

    /// Whether each change is delivered by itself.
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

    func deliver(_ changes: [KVChange], upTo revision: UInt64? = nil) {
        updates.withLock { updates in
            guard isSplit else { return updates.append(KVChangeSet(changes, revision: revision)) }
            for change in changes {
                guard case .changed(_, let entry, let revision) = change else {
                    updates.append(KVChangeSet([change]))
                    continue
                }
                // A value whose revision comes after that of its change belongs to a batch of which more follows.
                let isComplete = entry.map { $0.revision <= revision ?? 0 } ?? true
                updates.append(KVChangeSet([change], revision: isComplete ? revision : nil))
            }
        }
    }

    /// Whether everything was taken.
    var isEmpty: Bool { updates.withLock { $0.isEmpty } }

    fileprivate func take() -> KVChangeSet? { updates.withLock { $0.isEmpty ? nil : $0.removeFirst() } }

    func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
        defer { readCount.add(1, ordering: .relaxed) }
        if failsReads.load(ordering: .relaxed) { throw KVStoreError(.unavailable(.server), .read, key: name) }
        return try await base.entry(named: name)
    }

    func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        let revision = try await base.commit(batch, timeToLive: timeToLive)
        return returnsRevisions ? revision : nil
    }

    func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        connectionCount.add(1, ordering: .relaxed)
        return KVChanges { [self] () async throws(KVStoreError) -> KVChangeSet? in
            while !Task.isCancelled {
                if let update = take() { return update }
                do { try await Task.sleep(for: .milliseconds(1)) } catch { return nil }
            }
            return nil
        }
    }
}
