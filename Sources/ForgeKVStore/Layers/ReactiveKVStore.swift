import Synchronization

/// Adds change streams to any key-value store.
///
/// A stream reports every change made through this object, in the order of the writes. Writes that bypass it, directly
/// to the base store or through another `ReactiveKVStore`, are not reported: share one instance.
///
/// Changes by other processes to a shared store are reported once this process notices them; changes noticed together
/// are coalesced (``KVTransactionalStoring/observeRemoteChanges(_:)``).
///
/// A stream does not keep this object alive, and ends when it is released: keep a reference to it, for example in a
/// property, for as long as its streams are needed.
///
/// Writes through this object are serialised. During a write, the base store's `onIssue` handler and the `encode(to:)`
/// of the value must not write through this object.
public final class ReactiveKVStore<Base: KVStoring>: KVReadForwarding {
    /// The base store. Writes made directly to it are not reported.
    public let base: Base
    private let source: KVStreamSource
    private let hub = KVStreamHub()
    private let limit: Int

    /// Counts the writes. Held from before a write until its notifications, so that streams report writes in order.
    private let writeCount = Mutex<UInt64>(0)

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
        let id = writeCount.withLock { write in
            let subscriber = KVStreamHub.Subscriber(
                finish: { buffer.finishAfterLast() }, isPresent: { source.store.contains(key) },
                notify: { isPresent, write in source.push(key, isPresent: isPresent, write, to: buffer) },
                wait: { await buffer.wait(for: $0) })
            let id = hub.add(subscriber, of: key.identity)
            // Before the first element, so that no change is missed.
            hub.observe {
                source.transactional?.observeRemoteChanges { [weak self] names in self?.report(remoteChangesTo: names) }
            }
            source.push(key, isPresent: source.store.contains(key), write, to: buffer)
            return id
        }
        return KVChanges(KVSubscription(buffer, cancel: { [hub] in hub.remove(id, of: key.identity) }))
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
        try writeCount.withLock { write in
            let subscribers = hub.all.filter { $0.isPresent() }
            try notifying([(subscribers, false)], &write) { try base.removeAll() }
        }
    }

    private func change(_ name: KeyName, isPresent: Bool, _ body: () throws -> Void) throws {
        try writeCount.withLock { write in
            var subscribers = hub.subscribers(of: name)
            // Removing an absent key is not a change.
            if !isPresent { subscribers = subscribers.filter { $0.isPresent() } }
            try notifying([(subscribers, isPresent)], &write, after: body)
        }
    }

    /// Notifies the subscribers of changes that were not made through this object.
    private func report(remoteChangesTo names: [String]?) {
        writeCount.withLock { write in
            let subscribers = names.map { $0.flatMap { hub.subscribers(of: KeyName($0)) } } ?? hub.all
            guard !subscribers.isEmpty else { return }
            write += 1
            for subscriber in subscribers { subscriber.notify(subscriber.isPresent(), write) }
        }
    }

    /// Performs a write, then notifies the subscribers whether their key exists.
    private func notifying(
        _ changes: [(subscribers: [KVStreamHub.Subscriber], isPresent: Bool)], _ write: inout UInt64,
        after body: () throws -> Void
    ) throws {
        func notify() {
            write += 1
            for change in changes {
                for subscriber in change.subscribers { subscriber.notify(change.isPresent, write) }
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
        try writeCount.withLock { write in
            // Several changes of one key are one notification, of the last.
            var last: [KeyName: Bool] = [:]
            for change in batch.changes {
                if case .set = change { last[KeyName(change.name)] = true } else { last[KeyName(change.name)] = false }
            }
            let affected = last.map { name, isPresent in
                (subscribers: hub.subscribers(of: name).filter { isPresent || $0.isPresent() }, isPresent: isPresent)
            }
            try notifying(affected, &write) { try base.commit(batch) }
        }
    }
}

extension ReactiveKVStore: KVObservableStoring where Base: KVObservableStoring {}

extension ReactiveKVStore: KVIssueReporting where Base: KVIssueReporting {}
