/// The values of a key as they change: the one at the subscription first, then one after every write that changed it.
///
/// An element is nil where the key is absent, or its value not of the key's type. A write that leaves the encoded value as
/// it was, byte for byte, is not told. The stream ends when the task that reads it is cancelled and when the
/// ``ReactiveKVStore`` that made it is gone; it is given up when it is dropped. It is for one consumer: of two, each element
/// reaches one.
public struct KVStream<Value: Codable & Sendable>: AsyncSequence, Sendable {
    public typealias Element = Value?
    public typealias Failure = Never

    private let changes: KVChanges<Value>

    init(_ changes: KVChanges<Value>) {
        self.changes = changes
    }

    public func makeAsyncIterator() -> Iterator { Iterator(changes: changes.makeAsyncIterator()) }

    /// Gives out the elements of a stream.
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
