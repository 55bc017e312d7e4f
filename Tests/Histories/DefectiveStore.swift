package import ForgeKVStore
import Synchronization

/// A store with a planted defect that a history must show.
package final class DefectiveStore: AsyncKVStoring {
    package enum Defect: Sendable {
        /// Some reads return what an earlier read of the name has returned.
        case oldReads

        /// Some reads ask another store. Not all: an update that only sees an old revision does not end.
        case readsFrom(any AsyncKVStoring)

        /// Some writes are made again, a little later.
        case repeatedWrites

        /// Some writes are acknowledged and not made.
        case lostWrites
    }

    private let base: any AsyncKVStoring
    private let defect: Defect

    /// The last two entries read of each name.
    private let entries = Mutex<[String: (old: KVEntry?, present: KVEntry?)]>([:])

    package init(_ base: any AsyncKVStoring, _ defect: Defect) {
        self.base = base
        self.defect = defect
    }

    package func capabilities() async throws(KVStoreError) -> AsyncKVCapabilities {
        try await base.capabilities()
    }

    package func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
        switch defect {
        case .readsFrom(let store): return try await (Bool.random() ? store : base).entry(named: name)
        case .oldReads:
            let entry = try await base.entry(named: name)
            return entries.withLock { entries in
                var seen = entries[name] ?? (nil, nil)
                if seen.present != entry { seen = (seen.present, entry) }
                entries[name] = seen
                return Int.random(in: 0..<4) == 0 ? seen.old : entry
            }
        case .repeatedWrites, .lostWrites: return try await base.entry(named: name)
        }
    }

    package func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        try await base.keys(prefix: prefix, after: after, limit: limit)
    }

    package func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        if case .lostWrites = defect, Int.random(in: 0..<10) == 0 { return nil }
        let revision = try await base.commit(batch, timeToLive: timeToLive)
        guard case .repeatedWrites = defect, batch.requirements.isEmpty, Int.random(in: 0..<4) == 0 else {
            return revision
        }
        Task { [base] in
            try await Task.sleep(for: .milliseconds(5))
            try await base.commit(batch, timeToLive: timeToLive)
        }
        return revision
    }

    package func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        base.changes(prefix: prefix, from: revision)
    }
}
