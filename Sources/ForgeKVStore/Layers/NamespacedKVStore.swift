/// A part of a key-value store, on this machine or on servers, as a separate store: all its names begin with a
/// namespace.
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
/// A base store on this machine must list its keys, because ``removeAll()`` searches them for those of the namespace.
public struct NamespacedKVStore<Base: Sendable>: KVLayer {
    public let base: Base
    private let names: KVNamespace

    /// The namespace, unencoded.
    public var namespace: String { names.namespace }

    /// Creates the part of `base` with this namespace, which may be any text.
    public init(_ base: Base, namespace: String) {
        self.base = base
        names = KVNamespace(namespace)
    }
}

extension NamespacedKVStore: KVStoring, KVRawStoring where Base: KVRawStoring {
    public func get<T>(_ key: KVKey<T>) -> T? { base.get(names.inner(key)) }

    public func read<T>(_ key: KVKey<T>) throws -> T? { try names.translating { try base.read(names.inner(key)) } }

    public func contains<T>(_ key: KVKey<T>) -> Bool { base.contains(names.inner(key)) }

    public func set<T>(_ key: KVKey<T>, value: T) throws {
        try names.translating { try base.set(names.inner(key), value: value) }
    }

    public func remove<T>(_ key: KVKey<T>) throws { try names.translating { try base.remove(names.inner(key)) } }

    public func removeAll() throws {
        do {
            let names = try base.keys().filter { self.names.outer($0) != nil }
            guard !names.isEmpty else { return }
            try self.names.translating {
                guard let store = base.transactional else { return try names.forEach(base.removeValue) }
                try store.batch { batch in for name in names { batch.append(.remove(name: name)) } }
            }
        } catch let error as KVStoreError {
            throw error.of(.removeAll)
        }
    }

    public func keys() throws -> [String] { try base.keys().compactMap(names.outer) }

    public func rawValue(named name: String) throws -> [UInt8]? {
        try names.translating { try base.rawValue(named: names.inner(name)) }
    }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try names.translating { try base.setRawValue(bytes, named: names.inner(name)) }
    }

    public func removeValue(named name: String) throws {
        try names.translating { try base.removeValue(named: names.inner(name)) }
    }

    public func subscribe(to scope: KVScope) -> KVChanges? {
        base.subscribe(to: names.inner(scope)).map(names.outer)
    }
}

extension NamespacedKVStore: KVTransactionalStoring where Base: KVTransactionalStoring {
    public func entry(named name: String) throws -> KVEntry? {
        try names.translating { try base.entry(named: names.inner(name)) }
    }

    public func snapshot() throws -> KVSnapshot {
        let snapshot = try base.snapshot()
        return KVSnapshot(
            snapshot.compactMap { name, entry in names.outer(name).map { ($0, entry) } }, above: snapshot)
    }

    public func commit(_ batch: KVBatch) throws {
        try names.translating { try base.commit(batch.mapped(name: names.inner)) }
    }
}

extension NamespacedKVStore: AsyncKVStoring where Base: AsyncKVStoring {
    public func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
        do throws(KVStoreError) {
            return try await base.entry(named: names.inner(name))
        } catch {
            throw names.outer(error)
        }
    }

    public func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        var page = try await base.keys(prefix: names.inner(prefix), after: after.map(names.inner), limit: limit)
        page.names = page.names.compactMap(names.outer)
        return page
    }

    public func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        var page = try await base.entries(
            prefix: names.inner(prefix), after: after.map(names.inner), limit: limit, at: revision)
        page.entries = page.entries.compactMap { name, entry in names.outer(name).map { ($0, entry) } }
        page.storeID = page.storeID.map { "\($0) \(names.prefix)" }
        return page
    }

    @discardableResult
    public func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        do throws(KVStoreError) {
            return try await base.commit(batch.mapped(name: names.inner), timeToLive: timeToLive)
        } catch {
            throw names.outer(error)
        }
    }

    public func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        names.outer(base.changes(prefix: names.inner(prefix), from: revision))
    }
}

/// The names of a namespace in a store.
private struct KVNamespace: Sendable {
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

    // MARK: In the base store

    func inner(_ name: String) -> String { prefix + name }

    func inner<T>(_ key: KVKey<T>) -> KVKey<T> { key.named(prefix + key.name) }

    func inner(_ scope: KVScope) -> KVScope {
        switch scope {
        case .key(let name, let limit): .key(prefix + name, limit: limit)
        case .prefix(let inner): .prefix(prefix + inner)
        }
    }

    // MARK: In the namespace

    /// The name in the namespace; nil for a name that is not in it.
    func outer(_ name: String) -> String? {
        guard name.utf8.starts(with: prefix.utf8) else { return nil }
        return String(decoding: name.utf8.dropFirst(prefix.utf8.count), as: UTF8.self)
    }

    func outer(_ changes: KVChanges) -> KVChanges {
        changes.mapChanges { name, entry in outer(name).map { ($0, entry) } }
    }

    /// The error with the caller's name of the key.
    func outer(_ error: KVStoreError) -> KVStoreError {
        var error = error
        error.key = error.key.map { outer($0) ?? $0 }
        return error
    }

    /// Calls a base store; errors contain the caller's name of the key.
    func translating<Result>(_ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as KVStoreError {
            throw outer(error)
        }
    }
}
