/// The values of a key as they change, with their revisions: as ``KVStream``, which see, but for the elements.
public struct KVChanges<Value: Codable & Sendable>: AsyncSequence, Sendable {
    public typealias Element = KVChange<Value>
    public typealias Failure = Never

    private let subscription: KVSubscription<Value>

    init(_ subscription: KVSubscription<Value>) {
        self.subscription = subscription
    }

    public func makeAsyncIterator() -> Iterator { Iterator(subscription: subscription) }

    /// Gives out the elements of a sequence of changes.
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

/// A subscription as long as somebody can read it: when the last stream and iterator are gone, it leaves the hub.
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
