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
    private let change: @Sendable (KVStreamElement<Value>) -> KVChange<Value>?
    private let cancel: @Sendable () -> Void

    /// - Parameters:
    ///   - buffer: The elements.
    ///   - change: Decodes an element, or returns nil to skip it. Called by the consumer, without any lock held.
    ///   - cancel: Ends the subscription.
    init(
        _ buffer: KVStreamBuffer<Value>, change: @escaping @Sendable (KVStreamElement<Value>) -> KVChange<Value>?,
        cancel: @escaping @Sendable () -> Void
    ) {
        self.buffer = buffer
        self.change = change
        self.cancel = cancel
    }

    deinit {
        buffer.finish()
        cancel()
    }

    func next(isolation actor: isolated (any Actor)? = #isolation) async -> KVChange<Value>? {
        await withTaskCancellationHandler {
            while let element = await buffer.next() {
                if let change = change(element) { return change }
            }
            return nil
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

    /// Pushes the current value, as it will be decoded by the consumer. Returns whether it differs from the last one.
    func push<T>(_ key: KVKey<T>, isPresent: Bool, _ write: UInt64, to buffer: KVStreamBuffer<T>) -> Bool {
        guard isPresent else { return buffer.push(KVStreamElement(content: .absent, write: write)) }
        do {
            if let transactional {
                let entry = try transactional.entry(named: key.name)
                let content = entry.map { KVContent.bytes($0.bytes) } ?? .absent
                return buffer.push(KVStreamElement(content: content, revision: entry?.revision, write: write))
            }
            if let raw = store as? any KVRawStoring {
                let content = try raw.rawValue(named: key.name).map { KVContent.bytes($0) } ?? .absent
                return buffer.push(KVStreamElement(content: content, write: write))
            }
        } catch {
            return buffer.push(KVStreamElement(content: .unknown, write: write))
        }
        let value = store.get(key)
        return buffer.push(KVStreamElement(content: KVContent(of: value, key), write: write, value: value))
    }

    /// Decodes an element. This may run code of the app, so it is called without any lock held.
    func change<T>(_ element: KVStreamElement<T>, of key: KVKey<T>) -> KVChange<T> {
        KVChange(value: value(element, of: key), revision: element.revision, write: element.write)
    }

    private func value<T>(_ element: KVStreamElement<T>, of key: KVKey<T>) -> T? {
        guard case .bytes(let bytes) = element.content else { return element.value }
        if let value = element.value { return value }
        do {
            return try ValueTable.decode(bytes, as: key)
        } catch {
            _ = store.get(key)  // Reports the value to the store's handler.
            return nil
        }
    }
}
