import Dispatch
import ForgeFileSystem
import Synchronization

/// The synchronous writes.
extension MirroredKVStore {
    public func set<T>(_ key: KVKey<T>, value: T) throws {
        try key.identity.validate(.set, in: nil)
        var batch = KVBatch()
        do {
            try batch.set(key, value: value)
        } catch let error as KVStoreError {
            throw error.of(.set, key.name)
        }
        try commit(batch, .set, key.name)
    }

    public func remove<T>(_ key: KVKey<T>) throws { try removeValue(named: key.name) }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try KeyName(name).validate(.set, in: nil)
        var batch = KVBatch()
        batch.append(.set(name: name, bytes: bytes))
        try commit(batch, .set, name)
    }

    public func removeValue(named name: String) throws {
        try KeyName(name).validate(.remove, in: nil)
        var batch = KVBatch()
        batch.append(.remove(name: name))
        try commit(batch, .remove, name)
    }

    /// Removes every name of the remote store in one batch, or none: `.tooLarge` if they are more than a batch may
    /// change.
    public func removeAll() throws {
        try blocking(.removeAll, nil) { [remote] () async throws(KVStoreError) in
            var batch = KVBatch()
            for name in try await remote.keys() { batch.append(.remove(name: name)) }
            try await remote.commit(batch, timeToLive: nil)
        }
    }

    private func commit(_ batch: KVBatch, _ operation: KVStoreError.Operation, _ name: String) throws {
        try blocking(operation, name) { [remote] () async throws(KVStoreError) in
            try await remote.commit(batch, timeToLive: nil)
        }
    }

    /// Blocks the thread until `body` has returned, if the configuration permits it.
    private func blocking(
        _ operation: KVStoreError.Operation, _ name: String?,
        _ body: @escaping @Sendable () async throws(KVStoreError) -> Void
    ) throws(KVStoreError) {
        guard case .blocking(let limit) = configuration.synchronousWrites else {
            throw KVStoreError(.readOnly, operation, key: name)
        }
        let result = Result()
        let task = Task {
            let outcome: KVStoreError?
            do throws(KVStoreError) {
                try await body()
                outcome = nil
            } catch {
                outcome = error
            }
            result.end(outcome)
        }
        guard result.wait(for: limit) else {
            task.cancel()
            throw KVStoreError(.unknownOutcome, operation, key: name)
        }
        guard var error = result.error.withLock({ $0 }) else { return }
        error.operation = operation
        if error.key == nil { error.key = name }
        throw error
    }

    private final class Result: Sendable {
        let error = Mutex<KVStoreError?>(nil)
        private let semaphore = DispatchSemaphore(value: 0)

        func end(_ error: KVStoreError?) {
            self.error.withLock { $0 = error }
            semaphore.signal()
        }

        /// Whether the end came in time.
        func wait(for limit: Duration) -> Bool {
            let seconds = limit / .seconds(1)
            return semaphore.wait(timeout: .now() + seconds) == .success
        }
    }
}

extension MirroredKVStore {
    /// The remote store, whose writes return when the mirror shows them.
    ///
    /// Reads go to the remote store. A write that the mirror does not show in time throws `.notYetVisible`: it is
    /// applied.
    public var remote: Remote { Remote(feed: feed) }

    /// The remote store of a mirror (``MirroredKVStore/remote-swift.property``).
    public struct Remote: AsyncKVStoring {
        fileprivate let feed: MirrorFeed

        public func capabilities() async throws(KVStoreError) -> AsyncKVCapabilities {
            try await feed.source.capabilities()
        }

        public func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
            try await feed.source.entry(named: name)
        }

        public func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
            try await feed.source.keys(prefix: prefix, after: after, limit: limit)
        }

        public func entries(
            prefix: String, after: String?, limit: Int, at revision: UInt64?
        ) async throws(KVStoreError) -> AsyncKVEntryPage {
            try await feed.source.entries(prefix: prefix, after: after, limit: limit, at: revision)
        }

        @discardableResult
        public func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
            try await feed.commit(batch, timeToLive: timeToLive)
        }

        public func changes(prefix: String, from revision: UInt64?) -> KVChanges {
            feed.source.changes(prefix: prefix, from: revision)
        }
    }
}

extension MirrorFeed {
    /// Commits a batch and waits until the mirror shows it.
    ///
    /// - Throws: ``KVStoreError``; `.notYetVisible` if the batch is applied and the mirror does not show it.
    func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        guard !state.withLock({ $0.isClosed }) else {
            throw KVStoreError(.unavailable(.closed), .batch)
        }
        let revision = try await source.commit(batch, timeToLive: timeToLive)
        do throws(KVStoreError) {
            let end = ContinuousClock.now + configuration.visibilityLimit
            if let revision {
                try await wait(for: .revision(revision), until: end)
            } else {
                try await wait(forNames: Set(batch.changes.map { KeyName($0.name) }), until: end)
            }
        } catch {
            throw KVStoreError(
                .notYetVisible, .batch, key: batch.changes.first?.name, endpoint: error.endpoint, underlying: error)
        }
        return revision
    }

    /// Waits until the mirror shows the last write of each name, or a later one.
    ///
    /// For a store that does not return the revision of a batch. The stream of changes may skip states, so a later
    /// write can hide this one: the revisions of the names are read again after each pause.
    private func wait(
        forNames names: Set<KeyName>, until end: ContinuousClock.Instant
    ) async throws(KVStoreError) {
        let goal = MirrorState.Goal.entries(try await currentRevisions(of: names))
        try await wait(for: goal, until: end) { [self] goal in
            var pause = Duration.milliseconds(50)
            while true {
                try await Task.sleep(for: pause)
                let start = ContinuousClock.now
                do throws(KVStoreError) {
                    let new = MirrorState.Goal.entries(try await currentRevisions(of: missingNames(of: goal)))
                    goal.value.withLock { $0 = new }
                    noteProgress()
                } catch {
                    // The goal so far may still be reached.
                }
                pause = max(min(pause * 2, .seconds(1)), .now - start)
            }
        }
    }

    /// The names of a goal whose entries the mirror does not show.
    private func missingNames(of goal: MirrorGoal) -> Set<KeyName> {
        guard case .entries(let entries) = goal.value.withLock({ $0 }) else { return [] }
        return Set(entries.filter { !isReached(.entries([$0.key: $0.value])) }.keys)
    }

    private func currentRevisions(of names: Set<KeyName>) async throws(KVStoreError) -> [KeyName: UInt64?] {
        var revisions: [KeyName: UInt64?] = [:]
        for name in names { revisions[name] = .some(try await source.entry(named: name.string)?.revision) }
        return revisions
    }
}

/// The changes that a stream has delivered and a mirror does not show yet, because more of their batch may follow.
///
/// A connection that ends discards them: the next one repeats the batch.
struct MirrorBatch {
    private var update = KVChangeSet([])

    /// The revision of the last batch of which there is a value.
    private var last: UInt64 = 0

    /// Whether all changes are of a store that does not report revisions, and so no batches.
    private var hasNoRevisions = true

    /// Adds what the stream has delivered.
    mutating func append(_ next: KVChangeSet) {
        // A list contains the changes before it.
        if next.changes.first == .resync { self = MirrorBatch() }
        for case .changed(_, let entry, .some) in next.changes {
            hasNoRevisions = false
            last = max(last, entry?.revision ?? 0)
        }
        update.changes += next.changes
        update.revision = next.revision
    }

    /// Whether the last change is that of a batch.
    var isComplete: Bool { update.revision.map { $0 >= last } ?? hasNoRevisions }

    /// Takes the changes.
    mutating func take() -> KVChangeSet {
        defer { self = MirrorBatch() }
        return update
    }
}
