public import ForgeKVStore

/// An asynchronous store whose calls fail as a rule says, before or after they take effect.
///
/// ```swift
/// let store = FaultingAsyncKVStore(LocalAsyncKVStore(InMemoryKVStore())) { call in
///     call.operation == .batch ? .after(.unknownOutcome) : nil
/// }
/// ```
public struct FaultingAsyncKVStore<Base: AsyncKVStoring>: AsyncKVStoring {
    /// A call that may fail.
    public struct Call: Hashable, Sendable {
        /// The operation: `.read`, `.batch` (every write), `.keys`, `.changes` (each element) or `.capabilities`.
        public var operation: AsyncKVStoreError.Operation

        /// The names that the call reads or changes.
        public var names: [String]
    }

    /// How a call fails.
    public enum Fault: Hashable, Sendable {
        /// The base store is not called.
        case before(AsyncKVStoreError.Code)

        /// The base store has carried out the call, and the caller gets an error.
        case after(AsyncKVStoreError.Code)
    }

    private let base: Base
    private let fault: @Sendable (Call) -> Fault?

    /// Makes calls of `base` fail.
    ///
    /// - Parameters:
    ///   - base: The base store.
    ///   - fault: How a call fails; nil if it does not. Called once for each call, from any thread.
    public init(_ base: Base, _ fault: @escaping @Sendable (_ call: Call) -> Fault?) {
        self.base = base
        self.fault = fault
    }

    public func capabilities() async throws(AsyncKVStoreError) -> AsyncKVCapabilities {
        try await failing(.capabilities, []) { () async throws(AsyncKVStoreError) in try await base.capabilities() }
    }

    public func entry(named name: String) async throws(AsyncKVStoreError) -> KVEntry? {
        try await failing(.read, [name]) { () async throws(AsyncKVStoreError) in try await base.entry(named: name) }
    }

    public func keys(prefix: String, after: String?, limit: Int) async throws(AsyncKVStoreError) -> AsyncKVPage {
        try await failing(.keys, [prefix]) { () async throws(AsyncKVStoreError) in
            try await base.keys(prefix: prefix, after: after, limit: limit)
        }
    }

    public func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(AsyncKVStoreError) -> AsyncKVEntryPage {
        try await failing(.keys, [prefix]) { () async throws(AsyncKVStoreError) in
            try await base.entries(prefix: prefix, after: after, limit: limit, at: revision)
        }
    }

    @discardableResult
    public func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(AsyncKVStoreError) -> UInt64? {
        try await failing(.batch, batch.changes.map(\.name)) { () async throws(AsyncKVStoreError) in
            try await base.commit(batch, timeToLive: timeToLive)
        }
    }

    public func changes(prefix: String, from revision: UInt64?) -> AsyncKVChanges {
        AsyncKVChanges(FaultingChangeSource(self, base.changes(prefix: prefix, from: revision), prefix))
    }

    fileprivate func failing<Result>(
        _ operation: AsyncKVStoreError.Operation, _ names: [String],
        _ body: () async throws(AsyncKVStoreError) -> Result
    ) async throws(AsyncKVStoreError) -> Result {
        let fault = fault(Call(operation: operation, names: names))
        if case .before(let code) = fault { throw AsyncKVStoreError(code, operation, key: names.first) }
        let result = try await body()
        if case .after(let code) = fault { throw AsyncKVStoreError(code, operation, key: names.first) }
        return result
    }
}

private final class FaultingChangeSource<Base: AsyncKVStoring>: AsyncKVChangeSource {
    private let store: FaultingAsyncKVStore<Base>
    private let base: AsyncKVChanges
    private let prefix: String

    init(_ store: FaultingAsyncKVStore<Base>, _ base: AsyncKVChanges, _ prefix: String) {
        self.store = store
        self.base = base
        self.prefix = prefix
    }

    func next() async throws(AsyncKVStoreError) -> AsyncKVChange? {
        try await store.failing(.changes, [prefix]) { () async throws(AsyncKVStoreError) in
            var iterator = base.makeAsyncIterator()
            return try await iterator.next()
        }
    }

    func nextUpdate() async throws(AsyncKVStoreError) -> AsyncKVUpdate? {
        try await store.failing(.changes, [prefix]) { () async throws(AsyncKVStoreError) in
            var iterator = base.makeAsyncIterator()
            return try await iterator.nextUpdate()
        }
    }
}
