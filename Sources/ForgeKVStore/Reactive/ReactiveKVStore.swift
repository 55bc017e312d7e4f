import Synchronization

/// A key-value store whose changes can be watched: any store with streams added.
///
/// A stream tells of every change that is made through this object, in the order of the writes. It knows nothing of
/// writes that go to the store underneath directly, or through another `ReactiveKVStore` over it: make one and share it.
///
/// Changes that another process makes in a store that is shared are told too, as soon as this process notices them; of
/// several that it notices at once, the last (``KVStoring/changesElsewhere(_:)``).
///
/// Writes through this object are done one after another. While one is under way, `onIssue` of the store underneath and
/// the code that encodes the value must not write through this object.
public final class ReactiveKVStore: KVStoring {
    private let base: any KVStoring
    private let hub = KVStreamHub()
    private let limit: Int

    /// Held from before a write to after its telling, so that streams tell of writes in their order. It counts the writes.
    private let writing = Mutex<UInt64>(0)

    /// A store over `base`.
    ///
    /// - Parameters:
    ///   - base: The store that keeps the values.
    ///   - bufferLimit: How many elements a stream keeps for a consumer that is slow, at least 1. When there are more,
    ///     the newest replaces the last: what is delivered stays in order, and the latest value always is.
    public init(_ base: any KVStoring, bufferLimit: Int = 128) {
        self.base = base
        limit = bufferLimit
    }

    deinit {
        hub.finish()
    }

    /// The values of a key: the present one first, then one after every change, nil while the key is absent.
    ///
    /// The subscription begins with this call, not with the first element: no change after it is missed. A write that
    /// leaves the encoded value as it was, byte for byte, is no change and not told; so is one that a slow consumer never
    /// saw anything come between.
    public func stream<T>(_ key: KVKey<T>) -> KVStream<T> { KVStream(changes(key)) }

    /// The values of a key as ``stream(_:)`` gives them, with their revisions and the numbers of the writes.
    public func changes<T>(_ key: KVKey<T>) -> KVChanges<T> {
        let buffer = KVStreamBuffer<T>(limit: limit)
        let base = base
        let id = writing.withLock { write in
            let watcher = KVStreamHub.Watcher(
                finish: { buffer.finishAfterLast() }, isPresent: { base.contains(key) },
                tell: { isPresent, write in Self.push(key, of: base, isPresent: isPresent, write, to: buffer) },
                reach: { await buffer.reach($0) })
            let id = hub.add(watcher, of: key.identity)
            // Before the first element, so that no change comes between.
            hub.observe { base.changesElsewhere { [weak self] names in self?.tell(ofChangesElsewhere: names) } }
            Self.push(key, of: base, isPresent: base.contains(key), write, to: buffer)
            return id
        }
        return KVChanges(KVSubscription(buffer, cancel: { [hub] in hub.remove(id, of: key.identity) }))
    }

    /// Tells a consumer of what is there now.
    private static func push<T>(
        _ key: KVKey<T>, of base: any KVStoring, isPresent: Bool, _ write: UInt64, to buffer: KVStreamBuffer<T>
    ) {
        guard isPresent else { return buffer.push(KVChange(value: nil, revision: nil, write: write), .absent) }
        var value: T?
        var revision: UInt64?
        var content = KVContent.unknown
        do {
            var entry = try base.entry(named: key.name)
            // Another process may have changed it between the two looks.
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

    /// What a value is compared by if its store keeps no revisions.
    private static func encoded<T>(_ key: KVKey<T>, _ value: T?, of base: any KVStoring) -> KVContent {
        do {
            if let bytes = try base.rawValue(named: key.name) { return .bytes(bytes) }
        } catch {
            // A store without raw values: the value is encoded once more.
        }
        guard let value else { return .unknown }
        do {
            return .bytes(try ValueTable.encode(value, for: key))
        } catch {
            return .unknown
        }
    }

    /// Returns when every consumer of a stream has been handed everything that was written before this call, and has come
    /// back for more: when it has done what it does with an element. A test needs no sleep.
    ///
    /// ```swift
    /// try store.set(count, value: 3)
    /// await store.settled()
    /// #expect(label.text == "3")
    /// ```
    ///
    /// A consumer that has ended, or was given up, is not waited for; one that takes elements by hand and does not ask for
    /// another is, without an end: ``delivered()`` is for that. Returns at once if the task is cancelled.
    public func settled() async { await reach(.finished) }

    /// Returns when every consumer of a stream has been handed everything that was written before this call, whatever it
    /// does with it.
    ///
    /// Returns at once if the task is cancelled.
    public func delivered() async { await reach(.handed) }

    private func reach(_ progress: KVStreamProgress) async {
        for watcher in hub.all { await watcher.reach(progress) }
    }

    /// How many streams are being read, or could be.
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

    public func changesElsewhere(_ tell: @escaping @Sendable ([String]?) -> Void) -> KVObservation? {
        base.changesElsewhere(tell)
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
            // Who watches a key that is changed twice hears of the last change.
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
            // Removing what is not there changes nothing.
            if !isPresent { watchers = watchers.filter { $0.isPresent() } }
            try telling([(watchers, isPresent)], &write, body)
        }
    }

    /// Tells those who watch of changes that were not made through this object.
    private func tell(ofChangesElsewhere names: [String]?) {
        writing.withLock { write in
            let watchers = names.map { $0.flatMap { hub.watchers(of: KeyName($0)) } } ?? hub.all
            guard !watchers.isEmpty else { return }
            write += 1
            for watcher in watchers { watcher.tell(watcher.isPresent(), write) }
        }
    }

    /// Does what changes the store, and tells those who watch whether their key is there then.
    private func telling(
        _ changes: [(watchers: [KVStreamHub.Watcher], isPresent: Bool)], _ write: inout UInt64,
        _ body: () throws -> Void
    ) throws {
        func tell() {
            write += 1
            for change in changes { for watcher in change.watchers { watcher.tell(change.isPresent, write) } }
        }
        do {
            try body()
        } catch let error as KVStoreError where error.code == .durabilityUnknown {
            // Everybody who reads sees it, so everybody who watches has to.
            tell()
            throw error
        }
        tell()
    }
}
