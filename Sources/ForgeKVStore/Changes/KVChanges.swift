public import ForgeFileSystem
import Synchronization

/// The names whose changes a subscription reports.
public enum KVScope: Sendable {
    /// One key. At most `limit` undelivered changes are kept: beyond that, a new change replaces the last one, so that
    /// changes stay in order and the last one always arrives.
    case key(String, limit: Int = 128)

    /// All names with a prefix, compared byte by byte. Of each name the last undelivered change is kept; if there are
    /// more than 10,000 names, or their values exceed 64 MiB, they become ``KVChange/resync``.
    case prefix(String)
}

/// A change of a store.
public enum KVChange: Sendable {
    /// A name has changed; its entry is nil if it became absent. The revision, if the store replays changes, is the one
    /// from which a later sequence continues after this change. Inside a batch, it repeats the changes of the batch.
    case changed(name: String, entry: KVEntry?, revision: UInt64?)

    /// Changes may have been missed: read again what you need. Every later change is reported.
    case resync
}

extension KVChange {
    /// The name that has changed; nil for ``resync``.
    var name: String? {
        guard case .changed(let name, _, _) = self else { return nil }
        return name
    }
}

/// Names are compared by their bytes.
extension KVChange: Hashable, ComparedByBytes {
    struct Identity: Hashable {
        var name: KeyName?
        var entry: KVEntry?
        var revision: UInt64?
    }

    var identity: Identity {
        guard case .changed(let name, let entry, let revision) = self else { return Identity() }
        return Identity(name: KeyName(name), entry: entry, revision: revision)
    }
}

/// Changes that a subscription reports at once: complete batches.
public struct KVChangeSet: Hashable, Sendable {
    /// The changes, in order; empty for a notice that nothing has changed.
    public var changes: [KVChange]

    /// The revision up to which every change has been reported; nil if the store does not tell.
    public var revision: UInt64?

    /// Creates a set of changes.
    public init(_ changes: [KVChange], revision: UInt64? = nil) {
        self.changes = changes
        self.revision = revision
    }
}

/// The changes of a store: of one on this machine (``KVStoring/subscribe(to:)``), or of one on servers
/// (``AsyncKVStoring/changes(prefix:from:)``).
///
/// It ends when the consuming task is cancelled, or the store ends it; releasing the sequence and its iterators frees
/// the subscription. It has a single consumer: each element is delivered once. After an error it continues with the
/// next call of `next`, beginning with `.resync` if changes may have been missed. Of the stores of this package, only
/// those on servers throw.
public struct KVChanges: AsyncSequence, Sendable {
    public typealias Element = KVChange
    public typealias Failure = KVStoreError
    package typealias Source = @Sendable () async throws(KVStoreError) -> KVChangeSet?

    private let source: Source

    /// The subscriptions that the changes come from, for ``ReactiveKVStore/settled()``.
    package let handles: [ChangeHub.Handle]

    /// Creates the sequence of the results of `next`, for the implementation of a store or layer.
    ///
    /// - Parameter next: Waits for the next changes; returns nil at the end, and if the task is cancelled. When the
    ///   sequence is released, so is what the closure refers to.
    public init(next: @escaping @Sendable () async throws(KVStoreError) -> KVChangeSet?) {
        self.init(next, handles: [])
    }

    /// The same, of changes that come from subscriptions.
    package init(_ source: @escaping Source, handles: [ChangeHub.Handle]) {
        self.source = source
        self.handles = handles
    }

    public func makeAsyncIterator() -> Iterator { Iterator(source: source) }

    /// The iterator of a sequence of changes.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let source: Source

        /// What ``next(isolation:)`` has left of the last set.
        private var rest: ArraySlice<KVChange> = []
        private var revision: UInt64?

        fileprivate init(source: @escaping Source) { self.source = source }

        public mutating func next(isolation actor: isolated (any Actor)?) async throws(KVStoreError) -> KVChange? {
            while rest.isEmpty {
                guard let set = try await source() else { return nil }
                (rest, revision) = (set.changes[...], set.revision)
            }
            return rest.removeFirst()
        }

        /// The next changes that belong together, such as those of a batch, or a notice that nothing has changed; nil at
        /// the end. What ``next(isolation:)`` has left of the last ones comes first.
        public mutating func nextSet() async throws(KVStoreError) -> KVChangeSet? {
            guard rest.isEmpty else {
                defer { rest = [] }
                return KVChangeSet(Array(rest), revision: revision)
            }
            return try await source()
        }
    }

    /// The changes that `transform` returns for each name and entry, for the implementation of a layer; nil leaves a
    /// change out. It is called by the consumer, with no lock held.
    public func mapChanges(
        _ transform: @escaping @Sendable (_ name: String, _ entry: KVEntry?) -> (name: String, entry: KVEntry?)?
    ) -> KVChanges {
        let source = source
        return KVChanges(
            { () async throws(KVStoreError) -> KVChangeSet? in
                while var set = try await source() {
                    let isEmpty = set.changes.isEmpty
                    set.changes = set.changes.compactMap { change in
                        guard case .changed(let name, let entry, let revision) = change else { return change }
                        return transform(name, entry).map {
                            .changed(name: $0.name, entry: $0.entry, revision: revision)
                        }
                    }
                    if !set.changes.isEmpty || isEmpty || set.revision != nil { return set }
                }
                return nil
            }, handles: handles)
    }

    /// The changes after a first element.
    func beginning(with change: KVChange) -> KVChanges {
        let source = source
        let first = Once(KVChangeSet([change]))
        return KVChanges(
            { () async throws(KVStoreError) -> KVChangeSet? in
                if let first = first.take() { return first }
                return try await source()
            }, handles: handles)
    }

    private final class Once: Sendable {
        private let value: Mutex<KVChangeSet?>

        init(_ value: KVChangeSet) { self.value = Mutex(value) }

        func take() -> KVChangeSet? {
            value.withLock { value in
                defer { value = nil }
                return value
            }
        }
    }
}

// MARK: The hub of a store

extension ChangeHub {
    /// The changes of a store for one subscriber; those of a key begin with its present entry.
    ///
    /// - Parameters:
    ///   - scope: The names.
    ///   - current: The present entry of a name: what every write has stored that appended its change before the call.
    /// - Returns: The changes. They do not keep the store.
    public func changes(in scope: KVScope, current: (_ name: String) -> KVEntry?) -> KVChanges {
        changes(in: scope, retaining: nil, current: current)
    }

    /// The same; `object` is released with the subscription.
    func changes(
        in scope: KVScope, retaining object: (any Sendable)?, current: (_ name: String) -> KVEntry?
    ) -> KVChanges {
        let subscription = subscribe(to: Scope(scope))
        switch scope {
        // After this call, no write that missed the subscription is still to become visible.
        case .prefix(let prefix): _ = current(prefix)
        case .key(let name, _): begin(subscription.handle) { current(name) }
        }
        return KVChanges(subscription, retaining: object)
    }

    /// Begins a subscription to a name with the present entry, in the place of the changes that the entry shows.
    func begin(_ handle: Handle, current: () -> KVEntry?) {
        // If writers always interfere, the first change may be that of a later write.
        for _ in 0..<64 {
            let count = handle.appendedCount
            let entry = current()
            if handle.begin(with: entry?.bytes, revision: entry?.revision ?? 0, after: count) { break }
        }
        wake()
    }

    /// Adds a change of a store.
    @inline(never)
    func append(_ name: KeyName, _ bytes: [UInt8]?, _ revision: UInt64) {
        append(Change(Array(name.string.utf8), bytes: bytes, revision: revision))
    }
}

extension ChangeHub.Scope {
    init(_ scope: KVScope) {
        switch scope {
        case .key(let name, let limit): self = .name(Array(name.utf8), limit: limit)
        case .prefix(let prefix): self = .prefix(Array(prefix.utf8))
        }
    }
}

extension ChangeHub.Change {
    init(_ name: KeyName, _ bytes: [UInt8]?, _ revision: UInt64) {
        self.init(Array(name.string.utf8), bytes: bytes, revision: revision)
    }
}

extension KVChanges {
    /// - Parameters:
    ///   - subscription: The source of the changes.
    ///   - object: Is released with the changes.
    ///   - handles: The subscriptions that the changes went through before.
    init(
        _ subscription: ChangeHub.Subscription, retaining object: (any Sendable)?,
        after handles: [ChangeHub.Handle] = []
    ) {
        self.init(
            { () async throws(KVStoreError) -> KVChangeSet? in
                defer { withExtendedLifetime(object) {} }
                switch await subscription.next() {
                case nil: return nil
                case .resync: return KVChangeSet([.resync])
                case .changes(let changes): return KVChangeSet(changes.map { KVChange($0) })
                }
            }, handles: handles + [subscription.handle])
    }
}

extension KVChange {
    fileprivate init(_ change: ChangeHub.Change) {
        let entry = change.bytes.map { KVEntry(bytes: $0, revision: change.revision) }
        self = .changed(name: String(decoding: change.name, as: UTF8.self), entry: entry, revision: nil)
    }
}

// MARK: Two base stores

extension KVChanges {
    /// The changes of a store whose entries are those of `first` or, if it has none, of `second`.
    ///
    /// In a prefix, `second` may have an entry of a name that becomes absent in `first`, and `first` one that hides a
    /// change of `second`: both are reported as ``KVChange/resync``. So is a name that becomes absent in `first` if
    /// `second` is nil, which stands for a store that does not report its changes.
    static func combining(_ first: KVChanges, over second: KVChanges?, in scope: KVScope) -> KVChanges {
        guard let second else { return first.resyncingRemovals() }
        let entries = CombinedEntries(scope)
        let subscription = entries.hub.subscribe(to: ChangeHub.Scope(scope))
        let handle = subscription.handle
        let forwarding = Forwarding(
            Task {
                // Until the present entry of a key is known in both stores, its changes wait in the subscriptions.
                await entries.forwardEntry(second)
                await withTaskGroup(of: Void.self) { group in
                    group.addTask {
                        await entries.forward(first, isFirst: true)
                        handle.finish()
                    }
                    group.addTask { await entries.forward(second, isFirst: false) }
                }
            })
        return KVChanges(
            subscription, retaining: forwarding, after: first.handles + second.handles)
    }

    /// The changes with ``KVChange/resync`` for a name that becomes absent.
    private func resyncingRemovals() -> KVChanges {
        let source = source
        return KVChanges(
            { () async throws(KVStoreError) -> KVChangeSet? in
                guard var set = try await source() else { return nil }
                set.changes = set.changes.map { change in
                    guard case .changed(_, nil, _) = change else { return change }
                    return .resync
                }
                return set
            }, handles: handles)
    }

    /// A task that ends when it is released.
    final class Forwarding: Sendable {
        private let task: Task<Void, Never>

        init(_ task: Task<Void, Never>) { self.task = task }

        deinit { task.cancel() }
    }

    /// What two stores have reported.
    private final class CombinedEntries: Sendable {
        let hub = ChangeHub()
        private let isOfKey: Bool

        /// The last entries of a key; nil if none was reported yet.
        private let last = Mutex<(first: KVEntry??, second: KVEntry??)>((nil, nil))

        init(_ scope: KVScope) {
            if case .key = scope { isOfKey = true } else { isOfKey = false }
        }

        func forward(_ changes: KVChanges, isFirst: Bool) async {
            var iterator = changes.makeAsyncIterator()
            while !Task.isCancelled, await forwardNext(&iterator, isFirst) {}
        }

        /// Forwards the changes of the second store until the entry of a key is known.
        func forwardEntry(_ changes: KVChanges) async {
            var iterator = changes.makeAsyncIterator()
            guard isOfKey else { return }
            while !Task.isCancelled, last.withLock({ $0.second == nil }), await forwardNext(&iterator, false) {}
        }

        /// Forwards the next changes; returns false at the end.
        private func forwardNext(_ iterator: inout Iterator, _ isFirst: Bool) async -> Bool {
            do throws(KVStoreError) {
                guard let set = try await iterator.nextSet() else { return false }
                if isOfKey {
                    for change in set.changes { receive(change, isFirst) }
                } else {
                    receive(set, isFirst)
                }
            } catch {
                // It is unknown whether a key is present: what was reported last stays.
                if !isOfKey { hub.appendAll() }
            }
            hub.wake()
            return true
        }

        /// Reports changes of a prefix together.
        private func receive(_ set: KVChangeSet, _ isFirst: Bool) {
            var changes: [ChangeHub.Change] = []
            for change in set.changes {
                guard isFirst, case .changed(let name, let entry?, _) = change else { return hub.appendAll() }
                changes.append(ChangeHub.Change(KeyName(name), entry.bytes, entry.revision))
            }
            hub.append(changes)
        }

        /// Reports a change of a key.
        private func receive(_ change: KVChange, _ isFirst: Bool) {
            guard case .changed(let name, let entry, _) = change else { return hub.appendAll() }
            last.withLock { last in
                if isFirst { last.first = .some(entry) } else { last.second = .some(entry) }
                guard let first = last.first, let second = last.second else { return }
                let entry = first ?? second
                hub.append(ChangeHub.Change(KeyName(name), entry?.bytes, entry?.revision ?? 0))
            }
        }
    }
}
