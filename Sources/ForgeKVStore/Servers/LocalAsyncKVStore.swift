import ForgeFileSystem
import Synchronization

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
/// It keeps no earlier revisions: `entries` for one throws `.refused`. ``AsyncKVChanges/Iterator/nextUpdate()`` delivers
/// whole commits of the base: it compares all values with those of the update before, in a time that grows with their
/// number. `next` reports single names, and reads each value when it is requested.
///
/// Writes and lists run on another thread (two thread switches), because they may wait for a device or another process.
public final class LocalAsyncKVStore: AsyncKVStoring {
    private let base: any KVTransactionalStoring
    private let durability: AsyncKVCapabilities.Durability

    /// Wraps a local store.
    ///
    /// - Parameters:
    ///   - base: The store.
    ///   - durability: What acknowledged writes survive in `base`, which this type cannot find out. With `.powerCut`
    ///     every write waits until it is durable.
    public init(_ base: any KVTransactionalStoring, durability: AsyncKVCapabilities.Durability = .memory) {
        self.base = base
        self.durability = durability
    }

    public func capabilities() -> AsyncKVCapabilities {
        AsyncKVCapabilities(
            conditionalWrites: .batches, maximumBatchSize: nil, expiry: base is any KVExpiringBatches ? .zero : nil,
            changes: base.observeChanges { _ in } == nil ? .none : .lossy, readConsistency: .linearizable,
            durability: durability)
    }

    public func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
        try checkCancellation(.read, name)
        do {
            return try base.entry(named: name)
        } catch {
            throw KVStoreError(of: error, .read, key: name)
        }
    }

    public func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        try checkCancellation(.keys, nil)
        let names: [String]
        do {
            names = try await BlockingLane.general.run { [base] in try base.keys(prefix: prefix) }
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
            snapshot = try await BlockingLane.general.run { [base] in try base.snapshot() }
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
            try await BlockingLane.general.run { [base, durability] in
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

    public func changes(prefix: String, from revision: UInt64?) -> AsyncKVChanges {
        AsyncKVChanges(LocalChangeSource(base, prefix: prefix))
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

/// The changes of a local store for one consumer.
///
/// Undelivered names are kept once each; beyond ``limit`` they become a `.resync`.
final class LocalChangeSource: AsyncKVChangeSource {
    fileprivate enum Pending {
        case resync
        case name(KeyName)
    }

    fileprivate struct State {
        var needsResync = true

        /// The undelivered names, and which of them the next one is.
        private var names: [KeyName] = []
        private var first = 0
        private var known: Set<KeyName> = []
        var waiting: CheckedContinuation<Void, Never>?

        mutating func report(_ changed: [String]?, prefix: String) -> CheckedContinuation<Void, Never>? {
            if let changed {
                for name in changed where !needsResync && name.utf8.starts(with: prefix.utf8) {
                    let name = KeyName(name)
                    if known.insert(name).inserted { names.append(name) }
                }
            } else {
                needsResync = true
            }
            if needsResync || known.count > LocalChangeSource.limit {
                needsResync = true
                forgetNames()
            }
            return isIdle ? nil : takeWaiting()
        }

        var isIdle: Bool { !needsResync && known.isEmpty }

        private mutating func forgetNames() { (names, first, known) = ([], 0, []) }

        mutating func next() -> Pending? {
            if needsResync { return takeAll() }
            guard first < names.count else { return nil }
            // Removed before it is read, so that a change during the reading is reported again.
            let name = names[first]
            first += 1
            known.remove(name)
            if first == names.count {
                forgetNames()
            } else if first > LocalChangeSource.limit {
                names.removeFirst(first)
                first = 0
            }
            return .name(name)
        }

        /// Takes everything at once; `.name` is any of the names.
        mutating func takeAll() -> Pending? {
            guard !isIdle else { return nil }
            let name = names.last
            defer {
                needsResync = false
                forgetNames()
            }
            return needsResync ? .resync : name.map { .name($0) }
        }

        mutating func takeWaiting() -> CheckedContinuation<Void, Never>? {
            defer { waiting = nil }
            return waiting
        }
    }

    /// The largest number of undelivered names.
    static let limit = 10_000

    private let base: any KVTransactionalStoring
    private let prefix: String
    private let state: SharedState
    private let observation: KVObservation?

    /// The revisions of all values at the last update; nil before the first. Used by the one consumer.
    private let delivered = Mutex<[KeyName: UInt64]?>(nil)

    /// Apart from the source, so that the observer does not keep the source alive.
    private final class SharedState: Sendable {
        let value = Mutex(State())
    }

    init(_ base: any KVTransactionalStoring, prefix: String) {
        self.base = base
        self.prefix = prefix
        let state = SharedState()
        self.state = state
        observation = base.observeChanges { names in
            state.value.withLock { $0.report(names, prefix: prefix) }?.resume()
        }
    }

    func next() async throws(KVStoreError) -> AsyncKVChange? {
        try checkObservation()
        while !Task.isCancelled {
            switch state.value.withLock({ $0.next() }) {
            case .resync: return .resync
            case .name(let name):
                do {
                    return .changed(name: name.string, entry: try base.entry(named: name.string), revision: nil)
                } catch {
                    state.value.withLock { $0.needsResync = true }
                    throw KVStoreError(of: error, .changes, key: name.string)
                }
            case nil: await wait()
            }
        }
        return nil
    }

    /// All changes since the last update, up to one instant, so that no commit is delivered in part.
    func nextUpdate() async throws(KVStoreError) -> AsyncKVUpdate? {
        try checkObservation()
        while !Task.isCancelled {
            guard let pending = state.value.withLock({ $0.takeAll() }) else {
                await wait()
                continue
            }
            let snapshot: KVSnapshot
            do {
                snapshot = try await BlockingLane.general.run { [base] in try base.snapshot() }
            } catch {
                state.value.withLock { $0.needsResync = true }
                throw KVStoreError(of: error, .changes)
            }
            let entries = snapshot.filter { $0.name.utf8.starts(with: prefix.utf8) }
            let revisions = Dictionary(uniqueKeysWithValues: entries.map { (KeyName($0.name), $0.entry.revision) })
            let old = delivered.withLock { delivered in
                defer { delivered = revisions }
                return delivered
            }
            // A list that follows `.resync` shows at least this instant.
            guard case .name = pending, let old else { return AsyncKVUpdate(changes: [.resync]) }
            var changes: [AsyncKVChange] = []
            for (name, entry) in entries where old[KeyName(name)] != entry.revision {
                changes.append(.changed(name: name, entry: entry, revision: nil))
            }
            for name in old.keys where revisions[name] == nil {
                changes.append(.changed(name: name.string, entry: nil, revision: nil))
            }
            if !changes.isEmpty { return AsyncKVUpdate(changes: changes) }
        }
        return nil
    }

    private func checkObservation() throws(KVStoreError) {
        guard observation == nil else { return }
        throw KVStoreError(.refused, .changes, detail: "the store does not report changes")
    }

    private func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isDone = state.value.withLock { state in
                    guard state.isIdle, !Task.isCancelled else { return true }
                    precondition(state.waiting == nil, "a sequence of changes has a single consumer")
                    state.waiting = continuation
                    return false
                }
                if isDone { continuation.resume() }
            }
        } onCancel: {
            state.value.withLock { $0.takeWaiting() }?.resume()
        }
    }
}
