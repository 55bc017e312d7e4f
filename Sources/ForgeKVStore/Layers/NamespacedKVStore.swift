/// A part of a key-value store as a separate store: all its names begin with a namespace.
///
/// A key `theme` in the namespace `settings` is `settings/theme` in the base store. In the namespace, `%` and `/` are
/// encoded as `%25` and `%2F`, so that it ends at the first slash: `b/c` in the namespace `a` (`a/b/c`) and `c` in the
/// namespace `a/b` (`a%2Fb/c`) are always distinct. Namespaces can be nested. Names used directly in the base store can
/// collide with those of a namespace.
///
/// The limit of ``KVKey/maximumNameLength`` bytes applies to the whole name, including namespace and slash.
///
/// Calls are as atomic and as durable as in the base store. ``removeAll()`` removes only the names of the namespace: in
/// one batch if the base store is transactional, otherwise one by one. Names that another thread adds meanwhile are
/// kept.
///
/// The base store must list its keys, because ``removeAll()`` searches them for those of the namespace.
public struct NamespacedKVStore<Base: KVRawStoring>: KVRawStoring {
    private let base: Base
    private let names: KVNamespace
    private var prefix: String { names.prefix }

    /// The namespace, unencoded.
    public var namespace: String { names.namespace }

    /// Creates the part of `base` with this namespace, which may be any text.
    public init(_ base: Base, namespace: String) {
        self.base = base
        names = KVNamespace(namespace)
    }

    private func inner<T>(_ key: KVKey<T>) -> KVKey<T> { key.named(prefix + key.name) }

    private func outer(_ name: String) -> String? { names.outer(name) }

    /// Calls the base store; errors contain the caller's name of the key.
    private func translating<Result>(_ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch var error as KVStoreError {
            error.key = error.key.map { outer($0) ?? $0 }
            throw error
        }
    }
}

// MARK: Reading

extension NamespacedKVStore {
    public func get<T>(_ key: KVKey<T>) -> T? { base.get(inner(key)) }

    public func read<T>(_ key: KVKey<T>) throws -> T? { try translating { try base.read(inner(key)) } }

    public func contains<T>(_ key: KVKey<T>) -> Bool { base.contains(inner(key)) }

    public func keys() throws -> [String] { try base.keys().compactMap(outer) }

    public func rawValue(named name: String) throws -> [UInt8]? {
        try translating { try base.rawValue(named: prefix + name) }
    }
}

// MARK: Writing

extension NamespacedKVStore {
    public func set<T>(_ key: KVKey<T>, value: T) throws { try translating { try base.set(inner(key), value: value) } }

    public func remove<T>(_ key: KVKey<T>) throws { try translating { try base.remove(inner(key)) } }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try translating { try base.setRawValue(bytes, named: prefix + name) }
    }

    public func removeValue(named name: String) throws {
        try translating { try base.removeValue(named: prefix + name) }
    }

    public func removeAll() throws {
        let names = try base.keys().filter { outer($0) != nil }
        guard !names.isEmpty else { return }
        try translating {
            guard let store = base.transactional else { return try names.forEach(base.removeValue) }
            try store.batch { batch in for name in names { batch.append(.remove(name: name)) } }
        }
    }
}

// MARK: Transactions

extension NamespacedKVStore: KVTransactionalStoring where Base: KVTransactionalStoring {
    public func entry(named name: String) throws -> KVEntry? {
        try translating { try base.entry(named: prefix + name) }
    }

    public func snapshot() throws -> KVSnapshot {
        KVSnapshot(try base.snapshot().compactMap { name, entry in outer(name).map { ($0, entry) } })
    }

    public func commit(_ batch: KVBatch) throws {
        try translating { try base.commit(batch.mapped { prefix + $0 }) }
    }

    public func synchronize() throws { try base.synchronize() }
}

extension NamespacedKVStore {
    public func observeChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation? {
        base.observeChanges { names in
            guard let names else { return handler(nil) }
            let own = names.compactMap(outer)
            if !own.isEmpty { handler(own) }
        }
    }
}

extension NamespacedKVStore {
    public func report(_ issue: KVStoreIssue) { base.report(issue) }
}

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

    public func capabilities() async throws(KVStoreError) -> AsyncKVCapabilities { try await base.capabilities() }

    public func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
        do throws(KVStoreError) {
            return try await base.entry(named: names.prefix + name)
        } catch {
            throw names.outer(error)
        }
    }

    public func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        var page = try await base.keys(
            prefix: names.prefix + prefix, after: after.map { names.prefix + $0 }, limit: limit)
        page.names = page.names.compactMap(names.outer)
        return page
    }

    public func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        var page = try await base.entries(
            prefix: names.prefix + prefix, after: after.map { names.prefix + $0 }, limit: limit, at: revision)
        page.entries = page.entries.compactMap { name, entry in names.outer(name).map { ($0, entry) } }
        page.storeID = page.storeID.map { "\($0) \(names.prefix)" }
        return page
    }

    @discardableResult
    public func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        do throws(KVStoreError) {
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
    fileprivate func outer(_ error: KVStoreError) -> KVStoreError {
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

    func next() async throws(KVStoreError) -> AsyncKVChange? {
        var iterator = base.makeAsyncIterator()
        while let change = try await iterator.next() {
            guard case .changed(let name, let entry, let revision) = change else { return change }
            if let name = names.outer(name) { return .changed(name: name, entry: entry, revision: revision) }
        }
        return nil
    }

    func nextUpdate() async throws(KVStoreError) -> AsyncKVUpdate? {
        var iterator = base.makeAsyncIterator()
        guard var update = try await iterator.nextUpdate() else { return nil }
        update.changes = update.changes.compactMap { change in
            guard case .changed(let name, let entry, let revision) = change else { return change }
            return names.outer(name).map { .changed(name: $0, entry: entry, revision: revision) }
        }
        return update
    }
}

/// The names of a namespace in a store.
struct KVNamespace: Sendable {
    /// The namespace, unencoded.
    let namespace: String

    /// The prefix of every name: the namespace with `%` and `/` encoded, and a slash.
    let prefix: String

    init(_ namespace: String) {
        self.namespace = namespace
        var bytes: [UInt8] = []
        for byte in namespace.utf8 {
            switch byte {
            case UInt8(ascii: "%"): bytes += "%25".utf8
            case UInt8(ascii: "/"): bytes += "%2F".utf8
            default: bytes.append(byte)
            }
        }
        prefix = String(decoding: bytes + [UInt8(ascii: "/")], as: UTF8.self)
    }

    /// The name in the namespace; nil for a name that is not in it.
    func outer(_ name: String) -> String? {
        guard name.utf8.starts(with: prefix.utf8) else { return nil }
        return String(decoding: name.utf8.dropFirst(prefix.utf8.count), as: UTF8.self)
    }
}
