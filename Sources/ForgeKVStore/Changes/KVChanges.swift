/// The changes of a key's value with their revisions; otherwise like ``KVStream``.
public struct KVChanges<Value: Codable & Sendable>: AsyncSequence, Sendable {
    public typealias Element = KVChange<Value>
    public typealias Failure = Never

    private let subscription: KVSubscription<Value>

    init(_ subscription: KVSubscription<Value>) {
        self.subscription = subscription
    }

    public func makeAsyncIterator() -> Iterator { Iterator(subscription: subscription) }

    /// The iterator of a sequence of changes.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let subscription: KVSubscription<Value>

        public mutating func next() async -> KVChange<Value>? {
            await subscription.next()
        }

        public mutating func next(isolation actor: isolated (any Actor)?) async -> KVChange<Value>? {
            await subscription.next(isolation: actor)
        }
    }
}

/// A subscription; it ends when the last stream and iterator that refer to it are released.
final class KVSubscription<Value: Codable & Sendable>: Sendable {
    private let buffer: KVStreamBuffer<Value>
    private let cancel: @Sendable () -> Void

    init(_ buffer: KVStreamBuffer<Value>, cancel: @escaping @Sendable () -> Void) {
        self.buffer = buffer
        self.cancel = cancel
    }

    deinit {
        buffer.finish()
        cancel()
    }

    func next(isolation actor: isolated (any Actor)? = #isolation) async -> KVChange<Value>? {
        await withTaskCancellationHandler {
            await buffer.next()
        } onCancel: {
            buffer.finish()
            cancel()
        }
    }
}

/// A change of a key's value.
public struct KVChange<Value: Codable & Sendable>: Sendable {
    /// The value; nil if the key is absent or its value is not of the key's type.
    public var value: Value?

    /// The revision of the value, as returned by ``KVTransactionalStoring/entry(named:)`` and accepted by
    /// ``KVTransactionalStoring/compareAndSet(_:revision:value:)``; nil if the key is absent or the store keeps no
    /// revisions.
    public var revision: UInt64?

    /// The sequence number of the write, counted by the ``ReactiveKVStore`` over all keys. The first element of a
    /// subscription has the number of the last write before it, or 0.
    public var write: UInt64

    /// Creates a change.
    public init(value: Value?, revision: UInt64?, write: UInt64) {
        self.value = value
        self.revision = revision
        self.write = write
    }
}

extension KVChange: Equatable where Value: Equatable {}

/// The values of a key: the current one, then one after every change.
///
/// An element is nil if the key is absent or its value is not of the key's type. A write that does not change the
/// encoded value produces no element. The stream ends when the consuming task is cancelled or the ``ReactiveKVStore``
/// is released; releasing the stream ends the subscription. The stream does not keep the store alive: keep a reference
/// to the store for as long as the stream is needed. It has a single consumer: each element is delivered once.
public struct KVStream<Value: Codable & Sendable>: AsyncSequence, Sendable {
    public typealias Element = Value?
    public typealias Failure = Never

    private let changes: KVChanges<Value>

    init(_ changes: KVChanges<Value>) {
        self.changes = changes
    }

    public func makeAsyncIterator() -> Iterator { Iterator(changes: changes.makeAsyncIterator()) }

    /// The iterator of a stream.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate var changes: KVChanges<Value>.Iterator

        public mutating func next() async -> Value?? {
            await changes.next().map(\.value)
        }

        public mutating func next(isolation actor: isolated (any Actor)?) async -> Value?? {
            await changes.next(isolation: actor).map(\.value)
        }
    }
}

/// A store as the streams of its keys read it: downcast to the protocols it conforms to.
struct KVStreamSource: Sendable {
    let store: any KVStoring
    let transactional: (any KVTransactionalStoring)?

    init(_ store: some KVStoring) {
        self.store = store.unerased
        transactional = store.transactional
    }

    /// Pushes the current value.
    func push<T>(_ key: KVKey<T>, isPresent: Bool, _ write: UInt64, to buffer: KVStreamBuffer<T>) {
        guard isPresent else { return buffer.push(KVChange(value: nil, revision: nil, write: write), .absent) }
        if let (value, entry) = versioned(key) {
            let content = entry.map { KVContent.bytes($0.bytes) } ?? .absent
            return buffer.push(KVChange(value: value, revision: entry?.revision, write: write), content)
        }
        let value = store.get(key)
        buffer.push(KVChange(value: value, revision: nil, write: write), content(of: key, value))
    }

    /// The value of a key with the entry that it was read from; nil if there are no entries, or none can be read.
    private func versioned<T>(_ key: KVKey<T>) -> (value: T?, entry: KVEntry?)? {
        guard let transactional else { return nil }
        do {
            var entry = try transactional.entry(named: key.name)
            // Retried, because another process may have written between the two reads.
            while true {
                let value = transactional.get(key)
                let later = try transactional.entry(named: key.name)
                if later?.revision == entry?.revision { return (value, entry) }
                entry = later
            }
        } catch {
            return nil
        }
    }

    /// The content to compare by if there is no entry.
    private func content<T>(of key: KVKey<T>, _ value: T?) -> KVContent {
        do {
            if let bytes = try (store as? any KVRawStoring)?.rawValue(named: key.name) { return .bytes(bytes) }
        } catch {
            // The value, if there is one, is encoded instead.
        }
        guard let value else { return .unknown }
        do {
            return .bytes(try ValueTable.encode(value, for: key))
        } catch {
            return .unknown
        }
    }
}
