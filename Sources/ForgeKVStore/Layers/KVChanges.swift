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
