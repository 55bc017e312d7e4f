/// The values of a key as they change: the one at the subscription first, then one after every write.
///
/// An element is nil where the key is absent, or its value not of the key's type. The stream ends when the task that
/// reads it is cancelled and when the ``ReactiveKVStore`` that made it is gone; it is given up when it is dropped.
/// It is for one consumer: of two, each element reaches one.
public struct KVStream<Value: Codable & Sendable>: AsyncSequence, Sendable {
    public typealias Element = Value?
    public typealias Failure = Never

    private let subscription: KVSubscription<Value>

    init(_ subscription: KVSubscription<Value>) {
        self.subscription = subscription
    }

    public func makeAsyncIterator() -> Iterator { Iterator(subscription: subscription) }

    /// Gives out the elements of a stream.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let subscription: KVSubscription<Value>

        public mutating func next() async -> Value?? {
            await subscription.next()
        }

        public mutating func next(isolation actor: isolated (any Actor)?) async -> Value?? {
            await subscription.next(isolation: actor)
        }
    }
}

/// A subscription as long as somebody can read it: when the last stream and iterator are gone, it leaves the hub.
final class KVSubscription<Value: Codable & Sendable>: Sendable {
    private let buffer: KVStreamBuffer<Value>
    private let cancel: @Sendable () -> Void

    init(_ buffer: KVStreamBuffer<Value>, cancel: @escaping @Sendable () -> Void) {
        self.buffer = buffer
        self.cancel = cancel
    }

    deinit {
        cancel()
    }

    func next(isolation actor: isolated (any Actor)? = #isolation) async -> Value?? {
        await withTaskCancellationHandler {
            await buffer.next()
        } onCancel: {
            buffer.finish()
            cancel()
        }
    }
}
