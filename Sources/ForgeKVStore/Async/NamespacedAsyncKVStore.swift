/// A part of an asynchronous store as a separate store: all its names begin with a namespace.
///
/// Namespaces are encoded as by ``NamespacedKVStore``, and calls are as atomic and durable as in the base store.
public struct NamespacedAsyncKVStore<Base: AsyncKVStoring>: AsyncKVStoring {
    private let base: Base
    private let names: KVNamespace

    /// The namespace, unencoded.
    public var namespace: String { names.namespace }

    /// Creates the part of `base` with this namespace, which may be any text.
    public init(_ base: Base, namespace: String) {
        self.base = base
        names = KVNamespace(namespace)
    }

    public func capabilities() async throws(AsyncKVStoreError) -> AsyncKVCapabilities { try await base.capabilities() }

    public func entry(named name: String) async throws(AsyncKVStoreError) -> KVEntry? {
        do throws(AsyncKVStoreError) {
            return try await base.entry(named: names.prefix + name)
        } catch {
            throw names.outer(error)
        }
    }

    public func keys(prefix: String, after: String?, limit: Int) async throws(AsyncKVStoreError) -> AsyncKVPage {
        var page = try await base.keys(
            prefix: names.prefix + prefix, after: after.map { names.prefix + $0 }, limit: limit)
        page.names = page.names.compactMap(names.outer)
        return page
    }

    public func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(AsyncKVStoreError) -> AsyncKVEntryPage {
        var page = try await base.entries(
            prefix: names.prefix + prefix, after: after.map { names.prefix + $0 }, limit: limit, at: revision)
        page.entries = page.entries.compactMap { name, entry in names.outer(name).map { ($0, entry) } }
        page.storeID = page.storeID.map { "\($0) \(names.prefix)" }
        return page
    }

    @discardableResult
    public func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(AsyncKVStoreError) -> UInt64? {
        do throws(AsyncKVStoreError) {
            return try await base.commit(batch.mapped { names.prefix + $0 }, timeToLive: timeToLive)
        } catch {
            throw names.outer(error)
        }
    }

    public func changes(prefix: String, from revision: UInt64?) -> AsyncKVChanges {
        AsyncKVChanges(
            NamespacedChangeSource(base.changes(prefix: names.prefix + prefix, from: revision), names))
    }
}

extension KVNamespace {
    /// The error with the caller's name of the key.
    fileprivate func outer(_ error: AsyncKVStoreError) -> AsyncKVStoreError {
        var error = error
        error.key = error.key.map { outer($0) ?? $0 }
        return error
    }
}

/// The changes of a base store with the names of a namespace.
private final class NamespacedChangeSource: AsyncKVChangeSource {
    private let base: AsyncKVChanges
    private let names: KVNamespace

    init(_ base: AsyncKVChanges, _ names: KVNamespace) {
        self.base = base
        self.names = names
    }

    func next() async throws(AsyncKVStoreError) -> AsyncKVChange? {
        var iterator = base.makeAsyncIterator()
        while let change = try await iterator.next() {
            guard case .changed(let name, let entry, let revision) = change else { return change }
            if let name = names.outer(name) { return .changed(name: name, entry: entry, revision: revision) }
        }
        return nil
    }

    func nextUpdate() async throws(AsyncKVStoreError) -> AsyncKVUpdate? {
        var iterator = base.makeAsyncIterator()
        guard var update = try await iterator.nextUpdate() else { return nil }
        update.changes = update.changes.compactMap { change in
            guard case .changed(let name, let entry, let revision) = change else { return change }
            return names.outer(name).map { .changed(name: $0, entry: entry, revision: revision) }
        }
        return update
    }
}
