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
/// No asynchronous call blocks the caller's thread: they run on another one (two thread switches), because they may
/// wait for a device, another process or a lock of a layer. The exception is `entry` of an ``InMemoryKVStore``, and of a
/// ``FileKVStore`` that another process has not changed since the last call: it looks the name up in memory. Stores in
/// different directories have different threads. ``changes(prefix:from:)``, which is synchronous, waits for the write of
/// this process that is under way. Typed values are decoded by the caller's task.
///
/// Not simulated: what a network and a server do. No request is lost, late or refused, no answer is lost, so that no call
/// throws `.timeout` or `.unknownOutcome` and no sequence of changes ends in an error of the connection; there is no limit
/// on batches and requests; and no read is stale. A `FaultingAsyncKVStore` of ForgeStorageTesting around it adds such
/// errors.
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

    public func capabilities() async -> AsyncKVCapabilities {
        let reportsChanges = await lane.run { [base] in base.subscribe(to: .prefix("")) != nil }
        return AsyncKVCapabilities(
            maximumBatchSize: nil, expiry: base is any KVExpiringBatches ? .zero : nil,
            changes: reportsChanges ? .lossy : .none, readConsistency: .linearizable, durability: durability)
    }

    public func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
        try checkCancellation(.read, name)
        do {
            if let store = base as? InMemoryKVStore { return try store.entry(named: name) }
            if let store = base as? FileKVStore, let found = try store.entryWithoutWaiting(named: name) { return found }
            return try await lane.run { [base] in try base.entry(named: name) }
        } catch {
            throw KVStoreError(of: error, .read, key: name)
        }
    }

    public func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        try checkCancellation(.keys, nil)
        do {
            return try await lane.run { [base] in
                let page = Page(try base.keys(prefix: prefix), after: after, limit: limit) { $0 }
                return AsyncKVPage(names: page.elements, hasMore: page.hasMore)
            }
        } catch {
            throw KVStoreError(of: error, .keys)
        }
    }

    public func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        try checkCancellation(.keys, nil)
        guard revision == nil else {
            throw KVStoreError(.refused, .keys, detail: "the store keeps no earlier revisions")
        }
        do {
            return try await lane.run { [base] in
                let named = try base.snapshot().filter { (name, _) in name.utf8.starts(with: prefix.utf8) }
                let page = Page(named, after: after, limit: limit, name: \.name)
                return AsyncKVEntryPage(entries: page.elements, hasMore: page.hasMore)
            }
        } catch {
            throw KVStoreError(of: error, .keys)
        }
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

    /// The first elements whose names follow one, in the order of their bytes.
    private struct Page<Element> {
        let elements: [Element]
        let hasMore: Bool

        init(_ all: [Element], after: String?, limit: Int, name: (Element) -> String) {
            let rest = all.filter { element in
                after.map { $0.utf8.lexicographicallyPrecedes(name(element).utf8) } ?? true
            }
            .sorted { name($0).utf8.lexicographicallyPrecedes(name($1).utf8) }
            elements = Array(rest.prefix(max(limit, 1)))
            hasMore = elements.count < rest.count
        }
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

/// A store that is no ``KVLayer`` and makes its writes in another store.
protocol KVStoreAbove<Below>: KVStoring {
    associatedtype Below: KVStoring

    var storeBelow: Below { get }
}

extension KVStoreAbove {
    public func report(_ issue: KVStoreIssue) { storeBelow.report(issue) }
}

extension FileKVStore {
    /// The store on disk below layers; nil if there is none.
    static func below(_ store: any Sendable) -> FileKVStore? {
        if let store = store as? FileKVStore { return store }
        if let layer = store as? any KVLayer { return below(layer.base) }
        if let above = store as? any KVStoreAbove { return below(above.storeBelow) }
        return nil
    }

    /// The entry of a name, found without a lock and without reading a file; nil if that is not possible now.
    fileprivate func entryWithoutWaiting(named name: String) throws(KVStoreError) -> KVEntry?? {
        guard let found = try engine.cellWithoutWaiting(named: name) else { return nil }
        return .some(found.map { KVEntry($0) })
    }
}

extension BlockingLane {
    /// The threads for calls of a store: those of its directory, so that a device which does not answer takes no thread
    /// from calls of other stores.
    static func lane(of store: any KVTransactionalStoring) -> BlockingLane {
        FileKVStore.below(store)?.engine.lane ?? .general
    }
}
