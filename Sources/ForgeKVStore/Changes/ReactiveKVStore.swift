import Foundation
import Synchronization

/// Adds change streams to any key-value store.
///
/// A stream reports every change made through this object, in the order of the writes.
///
/// If the base store reports its changes (``KVStoring/observeChanges(_:)``), so does a stream: those made directly to the base
/// store, through another `ReactiveKVStore`, by other processes to a shared store, and by other machines to the store of
/// a ``MirroredKVStore``. They arrive soon after they have become visible; several may be coalesced into the last.
/// Without such a base, writes that bypass this object are not reported: share one instance.
///
/// A stream does not keep this object alive, and ends when it is released: keep a reference to it, for example in a
/// property, for as long as its streams are needed.
///
/// Writes through this object are serialised, and values are decoded by the consumers of streams, without a lock held.
/// During a write, the base store's `onIssue` handler and the `encode(to:)` and `init(from:)` of the value may use this
/// object, but must not wait for another thread that writes through it.
public final class ReactiveKVStore<Base: KVStoring>: KVReadForwarding {
    /// The base store.
    public let base: Base
    private let source: KVStreamSource
    private let hub = KVStreamHub()
    private let limit: Int

    /// Held from before a write until its notifications, so that streams report writes in order. Recursive, because the
    /// base store may run code of the app, which may use this object.
    private let turn = NSRecursiveLock()

    /// The number of writes. Used only while `turn` is held.
    private nonisolated(unsafe) var writeCount: UInt64 = 0

    /// Adds streams to `base`.
    ///
    /// - Parameters:
    ///   - base: The base store.
    ///   - bufferLimit: The number of undelivered elements that a stream keeps, at least 1. Beyond it, a new element
    ///     replaces the last one: elements stay in order and the latest value is always delivered.
    public init(_ base: Base, bufferLimit: Int = 128) {
        self.base = base
        source = KVStreamSource(base)
        limit = bufferLimit
    }

    deinit {
        hub.finish()
    }

    /// The values of a key: the current one, then one after every change; nil while the key is absent.
    ///
    /// The consumer is subscribed by this call, not by its first element, so no later change is missed. A write that
    /// does not change the encoded value produces no element. A slow consumer may see only the last of several changes.
    ///
    /// The stream does not keep this object alive: `for await value in ReactiveKVStore(base).stream(key)` ends after
    /// the first element.
    public func stream<T>(_ key: KVKey<T>) -> KVStream<T> { KVStream(changes(key)) }

    /// Like ``stream(_:)``, with revisions and write numbers.
    public func changes<T>(_ key: KVKey<T>) -> KVChanges<T> {
        let buffer = KVStreamBuffer<T>(limit: limit)
        let source = source
        let id = turn.withLock {
            let subscriber = KVStreamHub.Subscriber(
                finish: { buffer.finishAfterLast() }, isPresent: { source.store.contains(key) },
                notify: { isPresent, write in source.push(key, isPresent: isPresent, write, to: buffer) },
                wait: { await buffer.wait(for: $0) })
            let id = hub.add(subscriber, of: key.identity)
            // Before the first element, so that no change is missed.
            hub.observe {
                source.store.observeChanges { [weak self] names in self?.report(changesTo: names) }
            }
            _ = source.push(key, isPresent: source.store.contains(key), writeCount, to: buffer)
            return id
        }
        return KVChanges(
            KVSubscription(
                buffer, change: { source.change($0, of: key) }, cancel: { [hub] in hub.remove(id, of: key.identity) }))
    }

    /// Waits until every consumer has processed everything written before this call: it has received the elements and
    /// requested the next one. Lets tests wait without sleeping.
    ///
    /// ```swift
    /// try store.set(count, value: 3)
    /// await store.settled()
    /// #expect(label.text == "3")
    /// ```
    ///
    /// Does not wait for consumers that have ended. Waits indefinitely for a consumer that keeps its stream and
    /// requests no further element. If that consumer has received all elements, call ``delivered()`` instead; if it has
    /// not, release its stream and iterator. Returns at once if the task is cancelled.
    public func settled() async { await wait(for: .processed) }

    /// Waits until every consumer has received everything written before this call, processed or not.
    ///
    /// Does not wait for consumers that have ended. Waits indefinitely for a consumer that keeps its stream, but does
    /// not request the elements that it has not received yet. Returns at once if the task is cancelled.
    public func delivered() async { await wait(for: .delivered) }

    private func wait(for progress: KVStreamProgress) async {
        for subscriber in hub.all { await subscriber.wait(progress) }
    }

    /// The number of subscribers.
    package var subscriberCount: Int { hub.count }
}

// MARK: Writing

extension ReactiveKVStore {
    public func set<T>(_ key: KVKey<T>, value: T) throws {
        try change(key.identity, isPresent: true) { try base.set(key, value: value) }
    }

    public func remove<T>(_ key: KVKey<T>) throws {
        try change(key.identity, isPresent: false) { try base.remove(key) }
    }

    public func removeAll() throws {
        try turn.withLock {
            let subscribers = hub.all.filter { $0.isPresent() }
            try notifying([(subscribers, false)]) { try base.removeAll() }
        }
    }

    private func change(_ name: KeyName, isPresent: Bool, _ body: () throws -> Void) throws {
        try turn.withLock {
            var subscribers = hub.subscribers(of: name)
            // Removing an absent key is not a change.
            if !isPresent { subscribers = subscribers.filter { $0.isPresent() } }
            try notifying([(subscribers, isPresent)], after: body)
        }
    }

    /// Notifies the subscribers of changes that the base store reports. Those made through this object have been
    /// notified, so their content is that of the last element.
    private func report(changesTo names: [String]?) {
        turn.withLock {
            let subscribers = names.map { $0.flatMap { hub.subscribers(of: KeyName($0)) } } ?? hub.all
            var isNew = false
            for subscriber in subscribers where subscriber.notify(subscriber.isPresent(), writeCount + 1) {
                isNew = true
            }
            if isNew { writeCount += 1 }
        }
    }

    /// Performs a write, then notifies the subscribers whether their key exists.
    private func notifying(
        _ changes: [(subscribers: [KVStreamHub.Subscriber], isPresent: Bool)], after body: () throws -> Void
    ) throws {
        func notify() {
            writeCount += 1
            for change in changes {
                for subscriber in change.subscribers { _ = subscriber.notify(change.isPresent, writeCount) }
            }
        }
        do {
            try body()
        } catch let error as KVStoreError where error.code == .durabilityUnknown {
            // The write is visible to readers although it failed, so subscribers are notified.
            notify()
            throw error
        }
        notify()
    }
}

extension ReactiveKVStore: KVRawStoring where Base: KVRawStoring {
    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try change(KeyName(name), isPresent: true) { try base.setRawValue(bytes, named: name) }
    }

    public func removeValue(named name: String) throws {
        try change(KeyName(name), isPresent: false) { try base.removeValue(named: name) }
    }
}

extension ReactiveKVStore: KVTransactionalStoring where Base: KVTransactionalStoring {
    public func commit(_ batch: KVBatch) throws {
        try turn.withLock {
            // Several changes of one key are one notification, of the last.
            var last: [KeyName: Bool] = [:]
            for change in batch.changes {
                if case .set = change { last[KeyName(change.name)] = true } else { last[KeyName(change.name)] = false }
            }
            let affected = last.map { name, isPresent in
                (subscribers: hub.subscribers(of: name).filter { isPresent || $0.isPresent() }, isPresent: isPresent)
            }
            try notifying(affected) { try base.commit(batch) }
        }
    }
}

/// The subscribers by key. The lock is held for look-ups only, never during a call of a store or a stream.
final class KVStreamHub: Sendable {
    struct Subscriber: Sendable {
        /// Ends the stream after its undelivered elements.
        var finish: @Sendable () -> Void

        /// Whether the key exists now.
        var isPresent: @Sendable () -> Bool

        /// Notifies of a write: whether the key exists afterwards, and the number of the write. Returns whether the
        /// content differs from that of the last notification.
        var notify: @Sendable (_ isPresent: Bool, _ write: UInt64) -> Bool

        /// Waits until the consumer has made this progress on all earlier notifications.
        var wait: @Sendable (KVStreamProgress) async -> Void
    }

    private struct State {
        var subscribers: [KeyName: [UInt64: Subscriber]] = [:]
        var lastID: UInt64 = 0

        /// The observation of the base store, kept while there are subscribers.
        var observation: KVObservation?
    }

    private let state = Mutex(State())

    func add(_ subscriber: Subscriber, of name: KeyName) -> UInt64 {
        state.withLock { state in
            state.lastID += 1
            state.subscribers[name, default: [:]][state.lastID] = subscriber
            return state.lastID
        }
    }

    func remove(_ id: UInt64, of name: KeyName) {
        // Returned, so that a stream's elements are released outside the lock.
        _ = state.withLock { state -> (Subscriber?, KVObservation?) in
            let removed = state.subscribers[name]?.removeValue(forKey: id)
            if state.subscribers[name]?.isEmpty == true { state.subscribers[name] = nil }
            guard state.subscribers.isEmpty else { return (removed, nil) }
            defer { state.observation = nil }
            return (removed, state.observation)
        }
    }

    /// Starts observing the base store unless already observing; the observation is kept only while there are
    /// subscribers. Calls must be serialised.
    func observe(_ start: () -> KVObservation?) {
        guard state.withLock({ $0.observation == nil }), let observation = start() else { return }
        state.withLock { state in
            if !state.subscribers.isEmpty { state.observation = observation }
        }
    }

    /// The subscribers of a key.
    func subscribers(of name: KeyName) -> [Subscriber] {
        state.withLock { state in state.subscribers[name].map { Array($0.values) } ?? [] }
    }

    /// The subscribers of all keys.
    var all: [Subscriber] {
        state.withLock { state in state.subscribers.values.flatMap(\.values) }
    }

    var count: Int {
        state.withLock { state in state.subscribers.values.reduce(0) { $0 + $1.count } }
    }

    func finish() {
        for subscriber in all { subscriber.finish() }
    }
}

/// The tasks that wait for the progress of a stream's consumer.
struct KVStreamObservers {
    typealias Continuation = CheckedContinuation<Void, Never>

    /// The identity of a waiting task.
    final class ID: Sendable {}

    private struct Observer {
        var progress: KVStreamProgress
        var number: UInt64
        var continuation: Continuation
    }

    private var observers: [ObjectIdentifier: Observer] = [:]

    /// Tasks cancelled before they started to wait.
    private var cancelled: Set<ObjectIdentifier> = []

    mutating func add(_ id: ID, _ progress: KVStreamProgress, _ number: UInt64, _ continuation: Continuation) {
        let isCancelled = cancelled.remove(ObjectIdentifier(id)) != nil
        // Number 0 precedes the first push.
        observers[ObjectIdentifier(id)] = Observer(
            progress: progress, number: isCancelled ? 0 : number, continuation: continuation)
    }

    mutating func cancel(_ id: ID) -> Continuation? {
        guard let observer = observers.removeValue(forKey: ObjectIdentifier(id)) else {
            cancelled.insert(ObjectIdentifier(id))
            return nil
        }
        return observer.continuation
    }

    /// Drops the record of a task that no longer waits.
    mutating func forget(_ id: ID) { cancelled.remove(ObjectIdentifier(id)) }

    /// Removes and returns the tasks whose progress has been reached.
    mutating func take(delivered: UInt64, processed: UInt64) -> [Continuation] {
        guard !observers.isEmpty else { return [] }
        let reached = observers.filter { ($0.value.progress == .delivered ? delivered : processed) >= $0.value.number }
        for id in reached.keys { observers[id] = nil }
        return reached.values.map(\.continuation)
    }
}
