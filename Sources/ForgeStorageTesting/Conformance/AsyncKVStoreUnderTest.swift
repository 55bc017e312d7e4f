public import ForgeKVStore

/// A new, empty asynchronous store and what the checks do with it.
public struct AsyncKVStoreUnderTest: Sendable {
    /// The store.
    public var store: any AsyncKVStoring

    /// Another client of the same store.
    public var other: any AsyncKVStoring

    /// Lets time pass: waits, or advances the clock of the store.
    public var pass: @Sendable (Duration) async throws -> Void

    /// Ends all processes of the store, as far as the declared durability goes, and opens it again. Nil if it cannot
    /// be; then it may declare `.memory` alone.
    public var reopen: (@Sendable () async throws -> any AsyncKVStoring)?

    /// Creates a subject.
    public init(
        _ store: any AsyncKVStoring, other: any AsyncKVStoring,
        pass: @escaping @Sendable (Duration) async throws -> Void,
        reopen: (@Sendable () async throws -> any AsyncKVStoring)? = nil
    ) {
        self.store = store
        self.other = other
        self.pass = pass
        self.reopen = reopen
    }
}
