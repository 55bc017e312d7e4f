import Synchronization

/// Adds change streams to any key-value store.
///
/// A stream reports every change made through this object, in the order of the writes. Writes that bypass it, directly
/// to the base store or through another `ReactiveKVStore`, are not reported: share one instance.
///
/// Changes by other processes to a shared store are reported once this process notices them; changes noticed together
/// are coalesced (``KVStoring/observeRemoteChanges(_:)``).
///
/// A stream does not keep this object alive, and ends when it is released: keep a reference to it, for example in a
/// property, for as long as its streams are needed.
///
/// Writes through this object are serialised. During a write, the base store's `onIssue` handler and the `encode(to:)`
/// of the value must not write through this object.
public final class ReactiveKVStore: KVStoring {
    private let base: any KVStoring
    private let hub = KVStreamHub()
    private let limit: Int

    /// Counts the writes. Held from before a write until its notifications, so that streams report writes in order.
    private let writing = Mutex<UInt64>(0)

    /// Adds streams to `base`.
    ///
    /// - Parameters:
    ///   - base: The store that keeps the values.
    ///   - bufferLimit: The number of undelivered elements that a stream keeps, at least 1. Beyond it, a new element
    ///     replaces
    ///     the last one: elements stay in order and the latest value is always delivered.
    public init(_ base: any KVStoring, bufferLimit: Int = 128) {
        self.base = base
        limit = bufferLimit
    }

    deinit {
        hub.finish()
    }

    /// The values of a key: the current one, then one after every change; nil while the key is absent.
    ///
    /// The subscription starts with this call, not with the first element, so no later change is missed. A write that
    /// does not change the encoded value produces no element. A slow consumer may see only the last of several changes.
    ///
    /// The stream does not keep this object alive: `for await value in ReactiveKVStore(base).stream(key)` ends after
    /// the first element.
    public func stream<T>(_ key: KVKey<T>) -> KVStream<T> { KVStream(changes(key)) }

    /// Like ``stream(_:)``, with revisions and write numbers.
    public func changes<T>(_ key: KVKey<T>) -> KVChanges<T> {
        let buffer = KVStreamBuffer<T>(limit: limit)
        let base = base
        let id = writing.withLock { write in
            let watcher = KVStreamHub.Watcher(
                finish: { buffer.finishAfterLast() }, isPresent: { base.contains(key) },
                notify: { isPresent, write in Self.push(key, of: base, isPresent: isPresent, write, to: buffer) },
                reach: { await buffer.reach($0) })
            let id = hub.add(watcher, of: key.identity)
            // Before the first element, so that no change is missed.
            hub.observe { base.observeRemoteChanges { [weak self] names in self?.report(remoteChangesTo: names) } }
            Self.push(key, of: base, isPresent: base.contains(key), write, to: buffer)
            return id
        }
        return KVChanges(KVSubscription(buffer, cancel: { [hub] in hub.remove(id, of: key.identity) }))
    }

    /// Pushes the current value.
    private static func push<T>(
        _ key: KVKey<T>, of base: any KVStoring, isPresent: Bool, _ write: UInt64, to buffer: KVStreamBuffer<T>
    ) {
        guard isPresent else { return buffer.push(KVChange(value: nil, revision: nil, write: write), .absent) }
        var value: T?
        var revision: UInt64?
        var content = KVContent.unknown
        do {
            var entry = try base.entry(named: key.name)
            // Retried, because another process may have written between the two reads.
            while true {
                value = base.get(key)
                let later = try base.entry(named: key.name)
                if later?.revision == entry?.revision { break }
                entry = later
            }
            revision = entry?.revision
            content = entry.map { .bytes($0.bytes) } ?? .absent
        } catch {
            value = base.get(key)
            content = encoded(key, value, of: base)
        }
        buffer.push(KVChange(value: value, revision: revision, write: write), content)
    }

    /// The content to compare by if the store keeps no revisions.
    private static func encoded<T>(_ key: KVKey<T>, _ value: T?, of base: any KVStoring) -> KVContent {
        do {
            if let bytes = try base.rawValue(named: key.name) { return .bytes(bytes) }
        } catch {
            // The store has no raw values: encode the value instead.
        }
        guard let value else { return .unknown }
        do {
            return .bytes(try ValueTable.encode(value, for: key))
        } catch {
            return .unknown
        }
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
    public func settled() async { await reach(.finished) }

    /// Waits until every consumer has received everything written before this call, processed or not.
    ///
    /// Does not wait for consumers that have ended. Waits indefinitely for a consumer that keeps its stream, but does
    /// not request the elements that it has not received yet. Returns at once if the task is cancelled.
    public func delivered() async { await reach(.handed) }

    private func reach(_ progress: KVStreamProgress) async {
        for watcher in hub.all { await watcher.reach(progress) }
    }

    /// The number of subscriptions.
    package var subscriptionCount: Int { hub.count }
}

// MARK: Reading

extension ReactiveKVStore {
    public func get<T>(_ key: KVKey<T>) -> T? { base.get(key) }

    public func read<T>(_ key: KVKey<T>) throws -> T? { try base.read(key) }

    public func contains<T>(_ key: KVKey<T>) -> Bool { base.contains(key) }

    public func keys() throws -> [String] { try base.keys() }

    public func rawValue(named name: String) throws -> [UInt8]? { try base.rawValue(named: name) }

    public func entry(named name: String) throws -> KVEntry? { try base.entry(named: name) }

    public func snapshot() throws -> KVSnapshot { try base.snapshot() }

    public func observeRemoteChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation? {
        base.observeRemoteChanges(handler)
    }
}

// MARK: Writing

extension ReactiveKVStore {
    public func set<T>(_ key: KVKey<T>, value: T) throws {
        try change(key.identity, isPresent: true) { try base.set(key, value: value) }
    }

    public func remove<T>(_ key: KVKey<T>) throws {
        try change(key.identity, isPresent: false) { try base.remove(key) }
    }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try change(KeyName(name), isPresent: true) { try base.setRawValue(bytes, named: name) }
    }

    public func removeValue(named name: String) throws {
        try change(KeyName(name), isPresent: false) { try base.removeValue(named: name) }
    }

    public func removeAll() throws {
        try writing.withLock { write in
            let watchers = hub.all.filter { $0.isPresent() }
            try telling([(watchers, false)], &write) { try base.removeAll() }
        }
    }

    public func commit(_ batch: KVBatch) throws {
        try writing.withLock { write in
            // Several changes of one key are one notification, of the last.
            var last: [KeyName: Bool] = [:]
            for change in batch.changes {
                if case .set = change { last[KeyName(change.name)] = true } else { last[KeyName(change.name)] = false }
            }
            let told = last.map { name, isPresent in
                (watchers: hub.watchers(of: name).filter { isPresent || $0.isPresent() }, isPresent: isPresent)
            }
            try telling(told, &write) { try base.commit(batch) }
        }
    }

    public func synchronize() throws { try base.synchronize() }

    private func change(_ name: KeyName, isPresent: Bool, _ body: () throws -> Void) throws {
        try writing.withLock { write in
            var watchers = hub.watchers(of: name)
            // Removing an absent key is not a change.
            if !isPresent { watchers = watchers.filter { $0.isPresent() } }
            try telling([(watchers, isPresent)], &write, body)
        }
    }

    /// Notifies the watchers of changes that were not made through this object.
    private func report(remoteChangesTo names: [String]?) {
        writing.withLock { write in
            let watchers = names.map { $0.flatMap { hub.watchers(of: KeyName($0)) } } ?? hub.all
            guard !watchers.isEmpty else { return }
            write += 1
            for watcher in watchers { watcher.notify(watcher.isPresent(), write) }
        }
    }

    /// Performs a write, then notifies the watchers whether their key exists.
    private func telling(
        _ changes: [(watchers: [KVStreamHub.Watcher], isPresent: Bool)], _ write: inout UInt64,
        _ body: () throws -> Void
    ) throws {
        func notify() {
            write += 1
            for change in changes { for watcher in change.watchers { watcher.notify(change.isPresent, write) } }
        }
        do {
            try body()
        } catch let error as KVStoreError where error.code == .durabilityUnknown {
            // The write is visible to readers although it failed, so watchers are notified.
            notify()
            throw error
        }
        notify()
    }
}
