import Dispatch
public import ForgeFileSystem
public import Foundation
import Synchronization

/// A copy of an asynchronous store in memory, kept current by the store's changes and read without waiting.
///
/// ```swift
/// let mirror = try MirroredKVStore(LocalAsyncKVStore(InMemoryKVStore()))
/// try await mirror.wait(upTo: .seconds(10))
/// print(mirror.get(KVKey<Bool>("flag")) ?? false)
/// try await mirror.remote.set(KVKey<Bool>("flag"), value: true)
/// ```
///
/// It lists the remote store once, in pages of one revision, and then follows its changes, as the informers of
/// Kubernetes do. It needs a store that reports changes (``AsyncKVCapabilities/changes-swift.property``); with
/// another one it stays empty, and ``failure`` says `.refused`. ``NamespacedKVStore`` mirrors a part of a store.
///
/// - Reads are those of ``InMemoryKVStore``: lock-free, without a system call. The revisions of entries are those of
///   the remote store. A read may be older than the remote store, never older than an earlier read; ``snapshot()``
///   shows whole batches.
/// - The mirror continues from the last revision that the stream of changes or a list has delivered. It lists again if
///   the remote store cannot replay from there, if its identity has changed or its revision is lower, or if two
///   successive streams miss changes. The list is applied as a difference: subscribers and readers see only what
///   has changed. The mirror does not detect a store that was restored to an earlier state with the same identity, if
///   its revision has since passed that of the mirror.
/// - While the remote store cannot be reached, the mirror keeps its position, also if `wait` is called.
/// - Every ``Configuration/revisionCheckInterval`` the mirror asks for the revision of the remote store, by a read of
///   one entry. A stream that does not reach that revision and stays silent for ``Configuration/patience`` is opened
///   again.
/// - Subscribers get a change after it has become visible.
///
/// Writes go to the remote store: ``remote`` has asynchronous ones, which return when the mirror shows
/// them. The synchronous writes of ``KVStoring`` throw `.readOnly`, because code with an `any KVStoring` must not wait
/// for a network, unless ``Configuration/synchronousWrites-swift.property`` permits them to block the calling thread.
/// It is no ``KVTransactionalStoring``: the batches and conditions of a remote store have outcomes and limits that its
/// synchronous calls cannot tell; those of ``remote`` can.
///
/// A value whose time to live ends disappears with the change that the remote store reports; ``LocalAsyncKVStore`` does
/// not report it. An object that is released ends its connection; ``close()`` also waits for that.
public final class MirroredKVStore: KVRawStoring {
    let feed: MirrorFeed
    let configuration: Configuration

    /// The table of the feed's store, cached here: valid for the lifetime of that store.
    private let table: TableView

    /// Creates the mirror of a store, with the content of its copy on disk if there is one, and starts to follow.
    ///
    /// - Parameters:
    ///   - remote: The store.
    ///   - configuration: Limits, and where to keep a copy.
    /// - Throws: ``KVStoreError`` if the copy on disk cannot be opened; `.unavailable(.inUse(processID:))` if another
    ///   mirror or store has it open, in this process or another one. Damaged copies are discarded.
    public init(_ remote: any AsyncKVStoring, _ configuration: Configuration = Configuration()) throws {
        self.configuration = configuration
        let feed = try MirrorFeed(remote, configuration)
        self.feed = feed
        table = feed.memory.view
        feed.start()
    }

    deinit { feed.stop() }

    // MARK: Reading

    @_specialize(where T == Int)
    @_specialize(where T == String)
    @_specialize(where T == Bool)
    @_specialize(where T == Double)
    public func get<T>(_ key: KVKey<T>) -> T? {
        do throws(TableView.Interruption) {
            return try table.value(of: key)
        } catch {
            return feed.memory.get(key)
        }
    }

    /// The encoded value of a name and its revision in the remote store; nil if it is absent.
    ///
    /// - Throws: ``KVStoreError`` with the code `.invalidKey`.
    public func entry(named name: String) throws -> KVEntry? { try feed.memory.entry(named: name) }

    /// All names and values at one instant.
    public func snapshot() throws -> KVSnapshot { try feed.memory.snapshot() }

    // MARK: Staleness

    /// The revision of the remote store that the mirror shows; nil if it shows none yet, or the store has none.
    public var revision: UInt64? { feed.state.withLock { $0.position.revision } }

    /// Whether the mirror has reached the revision that the remote store had when the mirror last asked for it.
    ///
    /// False until the first list, with the content of a copy on disk, and, until the mirror has caught up again, from
    /// a failure of the connection or from a stream that did not deliver what the remote store has.
    public var isCaughtUp: Bool { feed.state.withLock { $0.isCaughtUp } }

    /// The time since the mirror was last known to be current; nil if it never was.
    ///
    /// It counts from the latest request for a list, or for the revision of the remote store, whose result the mirror
    /// has reached. Such a request is sent every ``Configuration/revisionCheckInterval``, so the age normally stays
    /// below about that time. Changes that arrive in between do not reset it: a change may have been delayed on its
    /// way.
    public var age: Duration? { feed.state.withLock { $0.provenAt.map { ContinuousClock.now - $0 } } }

    /// Why the mirror is not connected; nil if it is.
    public var failure: KVStoreError? { feed.state.withLock { $0.failure } }

    /// Why the copy on disk could not be written; nil if the last write succeeded, or there is none. The mirror writes
    /// the whole difference with the next change.
    public var copyFailure: (any Error)? { feed.copy?.failure }

    /// Waits until the mirror shows a revision of the remote store, or, with nil, until it has caught up.
    ///
    /// While the stream of changes is silent, the mirror asks for the revision of the remote store, and lists it again
    /// if two streams in a row do not deliver what it has. A list is delayed by up to ``Configuration/listJitter``.
    ///
    /// - Parameters:
    ///   - revision: The revision.
    ///   - limit: The time to wait.
    /// - Throws: ``KVStoreError``: `.timeout`, `.cancelled`, or `.unavailable(.closed)` if the mirror is closed.
    public func wait(for revision: UInt64? = nil, upTo limit: Duration) async throws(KVStoreError) {
        try await feed.wait(for: revision.map { .revision($0) } ?? .caughtUp, until: .now + limit)
    }

    /// Stops following, ends the calls of `wait`, and closes the copy on disk durably. Reads return the last values.
    ///
    /// - Throws: ``KVStoreError`` if the copy could not be made durable.
    public func close() async throws { try await feed.close() }
}

extension MirroredKVStore: EngineStore {
    var engine: KVEngine { feed.memory.engine }
}

extension MirroredKVStore {
    /// The limits of a mirror.
    public struct Configuration: Sendable {
        /// The behaviour of the synchronous writes of ``KVStoring``.
        public enum SynchronousWrites: Hashable, Sendable {
            /// They throw `.readOnly`.
            case refused

            /// They block the calling thread until the mirror shows the write, at most for a time; after that they
            /// throw `.unknownOutcome`.
            ///
            /// Call them only from threads that you have created, not from tasks or Dispatch queues: if every thread of
            /// the pool waits, no thread remains to carry out the writes, and each call times out.
            case blocking(upTo: Duration)
        }

        /// A directory for a copy of the mirror, and its file system.
        public struct Copy: Sendable {
            let path: POSIXPath
            let fileSystem: any POSIXFileSystem

            /// A copy in a directory of its own, which is created with mode 0700.
            public init(at path: POSIXPath, fileSystem: any POSIXFileSystem = SystemFileSystem()) {
                self.path = path
                self.fileSystem = fileSystem
            }

            /// A copy in a directory of its own, which is created with mode 0700.
            ///
            /// - Throws: ``KVStoreError`` if the URL is not that of a file.
            public init(at url: URL) throws {
                do throws(FileSystemError) {
                    self.init(at: try POSIXPath(url))
                } catch {
                    throw KVStoreError(error, .open, store: url.absoluteString)
                }
            }
        }

        /// The behaviour of the synchronous writes: `.refused` by default.
        public var synchronousWrites = SynchronousWrites.refused

        /// How long a write of ``MirroredKVStore/remote`` waits for the mirror, after it was applied: 10
        /// seconds.
        public var visibilityLimit = Duration.seconds(10)

        /// The interval between two checks of the remote store's revision: a minute, shortened at random by up to a
        /// tenth. A stream of changes that does not begin in this time is opened again.
        ///
        /// A store without revisions is listed again after each silence of this length.
        public var revisionCheckInterval = Duration.seconds(60)

        /// How long a stream of changes may be silent while the remote store has a later revision, before it is opened
        /// again: a second.
        ///
        /// `wait` asks for that revision after a silence of a quarter of it.
        public var patience = Duration.seconds(1)

        /// The longest random wait before a list, so that the processes of a fleet do not list at once: two seconds.
        /// A list with which a mirror starts is not delayed.
        public var listJitter = Duration.seconds(2)

        /// The longest random wait after a failure, to which the limit doubles from 50 milliseconds: 10 seconds.
        public var longestBackoff = Duration.seconds(10)

        /// The number of values in the first page of a list, 500 by default. The next pages have more, up to about 4
        /// MiB; after a page was too large or late, all pages have fewer.
        public var pageSize = 500

        /// The place of a copy on disk, from which a process starts with the last known values while the remote store
        /// cannot be reached; nil for none.
        ///
        /// The copy is a ``FileKVStore`` for one mirror. It is written asynchronously: a slow device gets several
        /// changes in one write, and ``MirroredKVStore/close()`` writes the rest. After a crash, the copy contains one
        /// complete state that the mirror has had, with its revision; after a power cut, perhaps an older one.
        public var copy: Copy?

        /// Creates a configuration with default values.
        public init() {}
    }
}

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
    public var remote: some AsyncKVStoring { Remote(feed: feed) }

    private struct Remote: AsyncKVStoring {
        let feed: MirrorFeed

        func capabilities() async throws(KVStoreError) -> AsyncKVCapabilities {
            try await feed.source.capabilities()
        }

        func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
            try await feed.source.entry(named: name)
        }

        func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
            try await feed.source.keys(prefix: prefix, after: after, limit: limit)
        }

        func entries(
            prefix: String, after: String?, limit: Int, at revision: UInt64?
        ) async throws(KVStoreError) -> AsyncKVEntryPage {
            try await feed.source.entries(prefix: prefix, after: after, limit: limit, at: revision)
        }

        @discardableResult
        func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
            try await feed.commit(batch, timeToLive: timeToLive)
        }

        func changes(prefix: String, from revision: UInt64?) -> KVChanges {
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
