public import ForgeKVStore

/// An asynchronous store whose calls fail as a rule says, before or after they take effect.
///
/// ```swift
/// let store = FaultingAsyncKVStore(LocalAsyncKVStore(InMemoryKVStore())) { call in
///     call.operation == .commit ? .after(.unknownOutcome) : nil
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
        case before(KVStoreError.Code)

        /// The base store has carried out the call, and the caller gets an error.
        case after(KVStoreError.Code)
    }

    private let base: Base
    private let fault: @Sendable (KVStoreCall) -> Fault?

    /// Makes calls of `base` fail.
    ///
    /// - Parameters:
    ///   - base: The base store.
    ///   - fault: How a call fails; nil if it does not. Called once for each call, and for each set of changes,
    ///     from any thread.
    public init(_ base: Base, _ fault: @escaping @Sendable (_ call: KVStoreCall) -> Fault?) {
        self.base = base
        self.fault = fault
    }

    public func capabilities() async throws(KVStoreError) -> AsyncKVCapabilities {
        try await failing(KVStoreCall(.capabilities)) { () async throws(KVStoreError) in
            try await base.capabilities()
        }
    }

    public func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
        try await failing(KVStoreCall(.entry, [name])) { () async throws(KVStoreError) in
            try await base.entry(named: name)
        }
    }

    public func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        try await failing(KVStoreCall(.keys, [prefix])) { () async throws(KVStoreError) in
            try await base.keys(prefix: prefix, after: after, limit: limit)
        }
    }

    public func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        try await failing(KVStoreCall(.entries, [prefix])) { () async throws(KVStoreError) in
            try await base.entries(prefix: prefix, after: after, limit: limit, at: revision)
        }
    }

    @discardableResult
    public func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        try await failing(KVStoreCall(batch)) { () async throws(KVStoreError) in
            try await base.commit(batch, timeToLive: timeToLive)
        }
    }

    public func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        let changes = base.changes(prefix: prefix, from: revision)
        return KVChanges { () async throws(KVStoreError) -> KVChangeSet? in
            switch fault(KVStoreCall(.changes, [prefix])) {
            case .before(let code), .after(let code): throw KVStoreError(code, .changes, key: prefix)
            case nil: break
            }
            var iterator = changes.makeAsyncIterator()
            return try await iterator.nextSet()
        }
    }

    private func failing<Result>(
        _ call: KVStoreCall, _ body: () async throws(KVStoreError) -> Result
    ) async throws(KVStoreError) -> Result {
        let fault = fault(call)
        let operation: KVStoreError.Operation =
            switch call.operation {
            case .capabilities: .capabilities
            case .entry: .read
            case .commit: .batch
            default: .keys
            }
        if case .before(let code) = fault { throw KVStoreError(code, operation, key: call.names.first) }
        let result = try await body()
        if case .after(let code) = fault { throw KVStoreError(code, operation, key: call.names.first) }
        return result
    }
}
