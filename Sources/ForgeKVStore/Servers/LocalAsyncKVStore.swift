import ForgeFileSystem

/// A local store as an ``AsyncKVStoring``: the twin, in one process, of the stores on servers.
///
/// ```swift
/// let store = LocalAsyncKVStore(ExpiringKVStore(InMemoryKVStore()))
/// ```
///
/// Times to live need an ``ExpiringKVStore`` as the base, whose clock decides; an expiration is not reported as a
/// change. Changes need a base that reports them, as ``InMemoryKVStore``, ``FileKVStore`` and layers over them do.
/// Other bases refuse these calls and declare so.
///
/// It keeps no earlier revisions: `entries` for one throws `.refused`. Changes are reported in whole commits of the
/// base.
///
/// Writes and lists run on another thread (two thread switches), because they may wait for a device or another process,
/// as do reads of a shared store that another process has changed since the last call. Stores in different directories
/// have different threads.
public final class LocalAsyncKVStore: AsyncKVStoring {
    private let base: any KVTransactionalStoring
    private let lane: BlockingLane
    private let durability: AsyncKVCapabilities.Durability

    /// Wraps a local store.
    ///
    /// - Parameters:
    ///   - base: The store.
    ///   - durability: What acknowledged writes survive in `base`, which this type cannot find out. With `.powerCut`
    ///     every write waits until it is durable.
    public init(_ base: any KVTransactionalStoring, durability: AsyncKVCapabilities.Durability = .memory) {
        self.base = base
        lane = .lane(of: base)
        self.durability = durability
    }

    public func capabilities() -> AsyncKVCapabilities {
        AsyncKVCapabilities(
            maximumBatchSize: nil, expiry: base is any KVExpiringBatches ? .zero : nil,
            changes: base.subscribe(to: .prefix("")) == nil ? .none : .lossy, readConsistency: .linearizable,
            durability: durability)
    }

    public func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
        try checkCancellation(.read, name)
        do {
            if FileKVStore.below(base)?.readsMayWait == true {
                return try await lane.run { [base] in try base.entry(named: name) }
            }
            return try base.entry(named: name)
        } catch {
            throw KVStoreError(of: error, .read, key: name)
        }
    }

    public func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        try checkCancellation(.keys, nil)
        let names: [String]
        do {
            names = try await lane.run { [base] in try base.keys(prefix: prefix) }
        } catch {
            throw KVStoreError(of: error, .keys)
        }
        let rest = names.filter { name in after.map { $0.utf8.lexicographicallyPrecedes(name.utf8) } ?? true }
            .sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        let page = rest.prefix(max(limit, 1))
        return AsyncKVPage(names: Array(page), hasMore: page.count < rest.count)
    }

    public func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        try checkCancellation(.keys, nil)
        guard revision == nil else {
            throw KVStoreError(.refused, .keys, detail: "the store keeps no earlier revisions")
        }
        let snapshot: KVSnapshot
        do {
            snapshot = try await lane.run { [base] in try base.snapshot() }
        } catch {
            throw KVStoreError(of: error, .keys)
        }
        let rest = snapshot.filter { (name, _) in
            name.utf8.starts(with: prefix.utf8) && after.map { $0.utf8.lexicographicallyPrecedes(name.utf8) } ?? true
        }
        .sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
        let page = rest.prefix(max(limit, 1))
        return AsyncKVEntryPage(entries: Array(page), hasMore: page.count < rest.count)
    }

    @discardableResult
    public func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        try checkCancellation(.batch, nil)
        let expiring = base as? any KVExpiringBatches
        guard timeToLive == nil || expiring != nil else {
            throw KVStoreError(.refused, .batch, detail: "the store has no times to live")
        }
        do {
            try await lane.run { [base, durability] in
                if let expiring {
                    try expiring.commit(batch, expiresAfter: timeToLive)
                } else {
                    try base.commit(batch)
                }
                guard durability == .powerCut else { return }
                do {
                    try base.synchronize()
                } catch {
                    throw KVStoreError(.durabilityUnknown, .batch, underlying: error)
                }
            }
        } catch {
            throw KVStoreError(of: error, .batch)
        }
        return nil
    }

    public func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        guard let changes = base.subscribe(to: .prefix(prefix)) else {
            return KVChanges { () async throws(KVStoreError) -> KVChangeSet? in
                throw KVStoreError(.refused, .changes, detail: "the store does not report changes")
            }
        }
        return changes.beginning(with: .resync)
    }

    private func checkCancellation(
        _ operation: KVStoreError.Operation, _ name: String?
    ) throws(KVStoreError) {
        guard !Task.isCancelled else { throw KVStoreError(.cancelled, operation, key: name) }
    }
}

/// A store whose batches may have an expiration.
protocol KVExpiringBatches: KVTransactionalStoring {
    /// Commits a batch whose values expire after a duration, or, with nil, not at all.
    func commit(_ batch: KVBatch, expiresAfter duration: Duration?) throws
}

// MARK: Threads

extension FileKVStore {
    /// The store on disk below layers; nil if there is none.
    static func below(_ store: any Sendable) -> FileKVStore? {
        if let store = store as? FileKVStore { return store }
        if let layer = store as? any KVLayer { return below(layer.base) }
        return nil
    }

    /// Whether a read first reads what other processes have written, which may wait for them and for the device.
    var readsMayWait: Bool { engine.sharing?.mayHaveRemoteChanges ?? false }
}

extension BlockingLane {
    /// The threads for calls of a store: those of its directory, so that a device which does not answer takes no thread
    /// from calls of other stores.
    static func lane(of store: any KVTransactionalStoring) -> BlockingLane {
        FileKVStore.below(store)?.engine.lane ?? .general
    }
}
