/// The changes of a store (``AsyncKVStoring/changes(prefix:from:)``).
///
/// It ends when the consuming task is cancelled; releasing the sequence and its iterator frees its connection. It has a
/// single consumer: each element is delivered once. After an error it continues with the next call of `next`, beginning
/// with `.resync` if changes may have been missed.
public struct AsyncKVChanges: AsyncSequence, Sendable {
    public typealias Element = AsyncKVChange
    public typealias Failure = AsyncKVStoreError

    private let source: any AsyncKVChangeSource

    /// Creates the sequence of the elements of a source, for the implementation of a store.
    public init(_ source: any AsyncKVChangeSource) {
        self.source = source
    }

    public func makeAsyncIterator() -> Iterator { Iterator(source: source) }

    /// The iterator of a sequence of changes.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let source: any AsyncKVChangeSource

        public mutating func next() async throws(AsyncKVStoreError) -> AsyncKVChange? { try await source.next() }

        public mutating func next(
            isolation actor: isolated (any Actor)?
        ) async throws(AsyncKVStoreError) -> AsyncKVChange? {
            try await source.next()
        }
    }
}

/// The changes of one subscription, for the implementation of a store. The subscription ends when it is released.
public protocol AsyncKVChangeSource: AnyObject, Sendable {
    /// The next element; nil if the task is cancelled.
    ///
    /// - Throws: ``AsyncKVStoreError``.
    func next() async throws(AsyncKVStoreError) -> AsyncKVChange?
}
