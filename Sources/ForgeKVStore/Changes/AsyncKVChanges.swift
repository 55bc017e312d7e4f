/// The changes of a store (``AsyncKVStoring/changes(prefix:from:)``).
///
/// It ends when the consuming task is cancelled; releasing the sequence and its iterator frees its connection. It has a
/// single consumer: each element is delivered once. After an error it continues with the next call of `next`, beginning
/// with `.resync` if changes may have been missed.
public struct AsyncKVChanges: AsyncSequence, Sendable {
    public typealias Element = AsyncKVChange
    public typealias Failure = KVStoreError

    private let source: any AsyncKVChangeSource

    /// Creates the sequence of the elements of a source, for the implementation of a store.
    public init(_ source: any AsyncKVChangeSource) {
        self.source = source
    }

    public func makeAsyncIterator() -> Iterator { Iterator(source: source) }

    /// The iterator of a sequence of changes.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let source: any AsyncKVChangeSource

        public mutating func next() async throws(KVStoreError) -> AsyncKVChange? { try await source.next() }

        public mutating func next(
            isolation actor: isolated (any Actor)?
        ) async throws(KVStoreError) -> AsyncKVChange? {
            try await source.next()
        }

        /// The next changes, together with those of the same batch and with notices that nothing has changed; nil if
        /// the task is cancelled. Elements that `next` has not returned come first.
        public mutating func nextUpdate() async throws(KVStoreError) -> AsyncKVUpdate? {
            try await source.nextUpdate()
        }
    }
}

/// The changes of one subscription, for the implementation of a store. The subscription ends when it is released.
public protocol AsyncKVChangeSource: AnyObject, Sendable {
    /// The next element; nil if the task is cancelled.
    ///
    /// - Throws: ``KVStoreError``.
    func next() async throws(KVStoreError) -> AsyncKVChange?

    /// The next changes, and notices that nothing has changed; nil if the task is cancelled. The default reports every
    /// element by itself.
    ///
    /// - Throws: ``KVStoreError``.
    func nextUpdate() async throws(KVStoreError) -> AsyncKVUpdate?
}

extension AsyncKVChangeSource {
    public func nextUpdate() async throws(KVStoreError) -> AsyncKVUpdate? {
        guard let change = try await next() else { return nil }
        guard case .changed(_, let entry, let revision) = change else { return AsyncKVUpdate(changes: [change]) }
        // A value whose revision comes after that of its change belongs to a batch of which more follows.
        let isComplete = entry.map { $0.revision <= revision ?? 0 } ?? true
        return AsyncKVUpdate(changes: [change], revision: isComplete ? revision : nil)
    }
}

/// An element of ``AsyncKVChanges``.
public enum AsyncKVChange: Hashable, Sendable {
    /// A name has changed; its entry is nil if it became absent. The revision, if the store replays changes, is the one
    /// from which a later sequence continues after this change. Inside a batch, it repeats the changes of the batch.
    case changed(name: String, entry: KVEntry?, revision: UInt64?)

    /// Changes may have been missed: list the names again. Every later change is reported.
    case resync
}

/// Changes that a subscription reports at once (``AsyncKVChanges/Iterator/nextUpdate()``).
public struct AsyncKVUpdate: Hashable, Sendable {
    /// The changes, in order, of complete batches if ``revision`` is not nil; empty for a notice that nothing has
    /// changed.
    public var changes: [AsyncKVChange]

    /// The revision up to which every change has been reported; nil if the update does not tell.
    public var revision: UInt64?

    /// Creates an update.
    public init(changes: [AsyncKVChange], revision: UInt64? = nil) {
        self.changes = changes
        self.revision = revision
    }
}
