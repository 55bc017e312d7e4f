import ForgeFileSystem
import Foundation
import Synchronization

/// Adds change streams to any key-value store.
///
/// If the base store reports its changes (``KVStoring/subscribe(to:)``), as all stores of this package do, a stream
/// reports them: those made through this object, directly to the base store, through another `ReactiveKVStore`, by other
/// processes to a shared store, and by other machines to the store of a ``MirroredKVStore``. A stream reports every
/// change made in this process in the order of the writes; others arrive soon after they have become visible, and
/// several may be coalesced into the last.
///
/// Without such a base, a stream reports every change made through this object, and writes that bypass it are not
/// reported: share one instance. Writes through this object are then serialised, and the base store's `onIssue` handler
/// and the `encode(to:)` and `init(from:)` of the value may use this object, but must not wait for another thread that
/// writes through it.
///
/// A stream does not keep this object alive, and ends when it is released: keep a reference to it, for example in a
/// property, for as long as its streams are needed. Values are decoded by the consumers of streams, without a lock held.
public final class ReactiveKVStore<Base: KVStoring>: KVLayer, KVStoring {
    /// The base store.
    public let base: Base
    private let limit: Int

    /// Reports the writes through this object; nil if the base store reports its changes.
    private let hub: ChangeHub?

    /// Held for a write and its report, so that streams report writes in order; only over a base store that does not
    /// report its changes. Recursive, because the base store may run code of the app, which may use this object.
    private let turn = NSRecursiveLock()

    /// The subscriptions of the streams that were created.
    private let streams = Mutex<[[ChangeHub.Handle]]>([])

    /// Adds streams to `base`.
    ///
    /// - Parameters:
    ///   - base: The base store.
    ///   - bufferLimit: The number of undelivered elements that a stream keeps, at least 1. Beyond it, a new element
    ///     replaces the last one: elements stay in order and the latest value is always delivered.
    public init(_ base: Base, bufferLimit: Int = 128) {
        self.base = base
        limit = bufferLimit
        hub = base.subscribe(to: .prefix("")) == nil ? ChangeHub() : nil
    }

    deinit {
        for handle in streams.withLock({ $0.joined() }) { handle.finish() }
    }

    /// The values of a key: the current one, then one after every change; nil while the key is absent.
    ///
    /// The consumer is subscribed by this call, not by its first element, so no later change is missed. A write that
    /// does not change the encoded value produces no element. A slow consumer may see only the last of several changes.
    ///
    /// The stream does not keep this object alive: `for await value in ReactiveKVStore(base).stream(key)` ends after
    /// the first element.
    public func stream<T>(_ key: KVKey<T>) -> KVStream<T> {
        let base = base
        let changes: KVChanges
        if let hub {
            changes = hub.changes(in: .key(key.name, limit: limit)) { _ in
                base.get(key).flatMap { value in Self.bytes(of: value, key).map { KVEntry(bytes: $0, revision: 0) } }
            }
        } else {
            changes = subscribe(to: .key(key.name, limit: limit)) ?? KVChanges { nil }
        }
        streams.withLock { streams in
            streams.removeAll { !$0.contains(where: \.isActive) }
            streams.append(changes.handles)
        }
        return KVStream(KVStreamSource(key, changes) { base.get(key) })
    }

    /// The changes of the base store; over a store that does not report any, those made through this object, beginning
    /// with ``KVChange/resync``.
    public func subscribe(to scope: KVScope) -> KVChanges? {
        guard let hub else { return base.subscribe(to: scope) }
        return KVChanges(hub.subscribe(to: ChangeHub.Scope(scope)), retaining: nil).beginning(with: .resync)
    }

    private static func bytes<T>(of value: T, _ key: KVKey<T>) -> [UInt8]? {
        do { return try ValueTable.encode(value, for: key) } catch { return nil }
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
    public func settled() async { await wait(isProcessed: true) }

    /// Waits until every consumer has received everything written before this call, processed or not.
    ///
    /// Does not wait for consumers that have ended. Waits indefinitely for a consumer that keeps its stream, but does
    /// not request the elements that it has not received yet. Returns at once if the task is cancelled.
    public func delivered() async { await wait(isProcessed: false) }

    private func wait(isProcessed: Bool) async {
        for handle in streams.withLock({ $0.joined() }) {
            let count = handle.appendedCount
            while !handle.hasDelivered(count, isProcessed: isProcessed) {
                do { try await Task.sleep(for: .milliseconds(1)) } catch { return }
            }
        }
    }

    /// The number of subscribers.
    package var subscriberCount: Int { streams.withLock { $0.count { $0.contains(where: \.isActive) } } }
}

// MARK: Writing

extension ReactiveKVStore {
    public func set<T>(_ key: KVKey<T>, value: T) throws {
        guard let hub else { return try base.set(key, value: value) }
        let change = ChangeHub.Change(key.identity, Self.bytes(of: value, key), 0)
        try reporting([change], to: hub) { try base.set(key, value: value) }
    }

    public func remove<T>(_ key: KVKey<T>) throws {
        guard let hub else { return try base.remove(key) }
        try reporting([ChangeHub.Change(key.identity, nil, 0)], to: hub) { try base.remove(key) }
    }

    public func removeAll() throws {
        guard let hub else { return try base.removeAll() }
        try reporting(nil, to: hub) { try base.removeAll() }
    }

    /// Performs a write, then reports its changes, or with nil that every key is absent.
    private func reporting(_ changes: [ChangeHub.Change]?, to hub: ChangeHub, _ write: () throws -> Void) throws {
        func report() {
            if let changes { hub.append(changes) } else { hub.appendAll() }
        }
        defer { hub.wake() }
        try turn.withLock {
            do {
                try write()
            } catch let error as KVStoreError where error.code == .durabilityUnknown {
                // The write is visible to readers although it failed, so it is reported.
                report()
                throw error
            }
            report()
        }
    }
}

extension ReactiveKVStore: KVRawStoring where Base: KVRawStoring {
    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        guard let hub else { return try base.setRawValue(bytes, named: name) }
        try reporting([ChangeHub.Change(KeyName(name), bytes, 0)], to: hub) { try base.setRawValue(bytes, named: name) }
    }

    public func removeValue(named name: String) throws {
        guard let hub else { return try base.removeValue(named: name) }
        try reporting([ChangeHub.Change(KeyName(name), nil, 0)], to: hub) { try base.removeValue(named: name) }
    }
}

extension ReactiveKVStore: KVTransactionalStoring where Base: KVTransactionalStoring {
    public func commit(_ batch: KVBatch) throws {
        guard let hub else { return try base.commit(batch) }
        let changes = batch.changes.map { change in
            switch change {
            case .set(let name, let bytes): ChangeHub.Change(KeyName(name), bytes, 0)
            case .remove(let name): ChangeHub.Change(KeyName(name), nil, 0)
            }
        }
        try reporting(changes, to: hub) { try base.commit(batch) }
    }
}

/// The values of a key: the current one, then one after every change.
///
/// An element is nil if the key is absent or its value is not of the key's type. A write that does not change the
/// encoded value produces no element. The stream ends when the consuming task is cancelled; releasing the stream ends
/// the subscription. It has a single consumer: each element is delivered once. Values are decoded by the consumer.
public struct KVStream<Value: Codable & Sendable>: AsyncSequence, Sendable {
    public typealias Element = Value?
    public typealias Failure = Never

    private let source: KVStreamSource<Value>

    init(_ source: KVStreamSource<Value>) {
        self.source = source
    }

    public func makeAsyncIterator() -> Iterator { Iterator(source: source) }

    /// The iterator of a stream.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let source: KVStreamSource<Value>

        public mutating func next(isolation actor: isolated (any Actor)?) async -> Value?? { await source.next() }
    }
}

/// Reads the changes of one key for the consumer of a stream.
final class KVStreamSource<Value: Codable & Sendable>: Sendable {
    private struct Source {
        /// The changes; nil for a store that does not report any.
        var changes: KVChanges?

        /// Reads the value; a value that is not of the key's type is reported to the store's handler.
        var read: @Sendable () -> Value?
    }

    private let key: KVKey<Value>

    /// Nil after the end, so that the store is released.
    private let source: Mutex<Source?>

    /// The bytes of the last element, nil if the key was absent; nil before the first, or if they are unknown.
    private let lastBytes = Mutex<[UInt8]??>(nil)

    init(_ key: KVKey<Value>, _ changes: KVChanges?, read: @escaping @Sendable () -> Value?) {
        self.key = key
        source = Mutex(Source(changes: changes, read: read))
    }

    func next() async -> Value?? {
        while let source = source.withLock({ $0 }) {
            guard let changes = source.changes else {
                end()
                return .some(source.read())
            }
            var iterator = changes.makeAsyncIterator()
            let change: KVChange
            do throws(KVStoreError) {
                guard let next = try await iterator.next(isolation: nil) else { break }
                change = next
            } catch {
                // The value may be present all the same. The changes go on with `.resync` if one was missed, or end.
                continue
            }
            switch change {
            case .changed(_, let entry, _):
                guard isNew(.some(entry?.bytes)) else { continue }
                return .some(entry.flatMap { decode($0, source, changes) })
            case .resync:
                let value = source.read()
                guard isNew(Self.bytes(of: value, key)) else { continue }
                return .some(value)
            }
        }
        end()
        return nil
    }

    private func end() {
        // Returned, so that they are released outside the lock.
        _ = source.withLock { source in
            defer { source = nil }
            return source
        }
    }

    private func isNew(_ bytes: [UInt8]??) -> Bool {
        lastBytes.withLock { last in
            defer { last = bytes }
            return bytes == nil || last != bytes
        }
    }

    private func decode(_ entry: KVEntry, _ source: Source, _ changes: KVChanges) -> Value? {
        do {
            return try ValueTable.decode(entry.bytes, as: key)
        } catch {
            // Reports the value to the store's handler. The store may convert it, as user defaults do.
            let value = source.read()
            let isPresent = changes.handles.allSatisfy { $0.hasDelivered($0.appendedCount, isProcessed: false) }
            return isPresent ? value : nil
        }
    }

    /// The bytes of a value that is read by its type; nil if they are unknown, because an undecodable value reads as
    /// absent.
    private static func bytes(of value: Value?, _ key: KVKey<Value>) -> [UInt8]?? {
        guard let value else { return nil }
        do { return .some(try ValueTable.encode(value, for: key)) } catch { return nil }
    }
}

// MARK: Streams of any store

extension KVStoring {
    /// The values of a key: the current one, then the latest one after each change that the store reports; nil while
    /// the key is absent.
    ///
    /// A slow consumer sees the latest value, not each of several changes; the final value is always delivered. A
    /// change that does not change the encoded value produces no element. The sequence has one consumer. Unlike a
    /// stream of a ``ReactiveKVStore``, which reports every change, it keeps the store alive, until its task is
    /// cancelled or the sequence and its iterators are released. If the store does not report changes, the current value
    /// is the only element.
    public func values<T>(of key: KVKey<T>) -> KVStream<T> {
        KVStream(KVStreamSource(key, subscribe(to: .key(key.name, limit: 1))) { get(key) })
    }

    /// The values of a setting: the current one, then the latest one after each change; the default
    /// while nothing is stored. Otherwise like ``values(of:)-(KVKey<T>)``.
    public func values<T>(of setting: KVSetting<T>) -> KVSettingValues<T> {
        KVSettingValues(values(of: setting.key), defaultValue: setting.defaultValue)
    }
}

/// The values of a setting; see ``KVStoring/values(of:)-(KVSetting<T>)``.
public struct KVSettingValues<Value: Codable & Sendable>: AsyncSequence, Sendable {
    public typealias Element = Value
    public typealias Failure = Never

    private let values: KVStream<Value>
    private let defaultValue: Value

    init(_ values: KVStream<Value>, defaultValue: Value) {
        self.values = values
        self.defaultValue = defaultValue
    }

    public func makeAsyncIterator() -> Iterator {
        Iterator(values: values.makeAsyncIterator(), defaultValue: defaultValue)
    }

    /// The iterator of a setting's values.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate var values: KVStream<Value>.Iterator
        fileprivate let defaultValue: Value

        public mutating func next(isolation actor: isolated (any Actor)?) async -> Value? {
            await values.next(isolation: actor).map { $0 ?? defaultValue }
        }
    }
}
