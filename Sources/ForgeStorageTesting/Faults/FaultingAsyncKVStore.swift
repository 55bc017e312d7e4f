public import ForgeKVStore

/// An asynchronous store whose calls fail as a rule says, before or after they take effect.
///
/// ```swift
/// let store = FaultingAsyncKVStore(LocalAsyncKVStore(InMemoryKVStore())) { call in
///     call.operation == .batch ? .after(.unknownOutcome) : nil
/// }
/// ```
///
/// An unknown outcome is `.before(.unknownOutcome)` for a write that is not applied, `.after(.unknownOutcome)` for one
/// that is. A fault of `.changes`, of either kind, is thrown instead of waiting for the next element, and loses none.
///
/// Not simulated: calls that take long or never end, answers in another order, and a server that loses what it has
/// acknowledged.
public struct FaultingAsyncKVStore<Base: AsyncKVStoring>: AsyncKVStoring {
    /// How a call fails.
    public enum Fault: Hashable, Sendable {
        /// The base store is not called.
        case before(AsyncKVStoreError.Code)

        /// The base store has carried out the call, and the caller gets an error.
        case after(AsyncKVStoreError.Code)
    }

    private let base: Base
    fileprivate let fault: @Sendable (AsyncKVStoreCall) -> Fault?

    /// Makes calls of `base` fail.
    ///
    /// - Parameters:
    ///   - base: The base store.
    ///   - fault: How a call fails; nil if it does not. Called once for each call, and for each element of the changes,
    ///     from any thread.
    public init(_ base: Base, _ fault: @escaping @Sendable (_ call: AsyncKVStoreCall) -> Fault?) {
        self.base = base
        self.fault = fault
    }

    public func capabilities() async throws(AsyncKVStoreError) -> AsyncKVCapabilities {
        try await failing(AsyncKVStoreCall(.capabilities)) { () async throws(AsyncKVStoreError) in
            try await base.capabilities()
        }
    }

    public func entry(named name: String) async throws(AsyncKVStoreError) -> KVEntry? {
        try await failing(AsyncKVStoreCall(.read, [name])) { () async throws(AsyncKVStoreError) in
            try await base.entry(named: name)
        }
    }

    public func keys(prefix: String, after: String?, limit: Int) async throws(AsyncKVStoreError) -> AsyncKVPage {
        try await failing(AsyncKVStoreCall(.keys, [prefix])) { () async throws(AsyncKVStoreError) in
            try await base.keys(prefix: prefix, after: after, limit: limit)
        }
    }

    public func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(AsyncKVStoreError) -> AsyncKVEntryPage {
        try await failing(AsyncKVStoreCall(.keys, [prefix])) { () async throws(AsyncKVStoreError) in
            try await base.entries(prefix: prefix, after: after, limit: limit, at: revision)
        }
    }

    @discardableResult
    public func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(AsyncKVStoreError) -> UInt64? {
        try await failing(AsyncKVStoreCall(batch)) { () async throws(AsyncKVStoreError) in
            try await base.commit(batch, timeToLive: timeToLive)
        }
    }

    public func changes(prefix: String, from revision: UInt64?) -> AsyncKVChanges {
        AsyncKVChanges(FaultingChangeSource(self, base.changes(prefix: prefix, from: revision), prefix))
    }

    private func failing<Result>(
        _ call: AsyncKVStoreCall, _ body: () async throws(AsyncKVStoreError) -> Result
    ) async throws(AsyncKVStoreError) -> Result {
        let fault = fault(call)
        if case .before(let code) = fault { throw AsyncKVStoreError(code, call.operation, key: call.names.first) }
        let result = try await body()
        if case .after(let code) = fault { throw AsyncKVStoreError(code, call.operation, key: call.names.first) }
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
        try failIfPlanned()
        var iterator = base.makeAsyncIterator()
        return try await iterator.next()
    }

    func nextUpdate() async throws(AsyncKVStoreError) -> AsyncKVUpdate? {
        try failIfPlanned()
        var iterator = base.makeAsyncIterator()
        return try await iterator.nextUpdate()
    }

    private func failIfPlanned() throws(AsyncKVStoreError) {
        switch store.fault(AsyncKVStoreCall(.changes, [prefix])) {
        case .before(let code), .after(let code): throw AsyncKVStoreError(code, .changes, key: prefix)
        case nil: return
        }
    }
}
