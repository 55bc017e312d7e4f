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
