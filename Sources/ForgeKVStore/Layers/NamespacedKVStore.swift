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

    public func observeRemoteChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation? {
        base.observeRemoteChanges { names in
            guard let names else { return handler(nil) }
            let own = names.compactMap(outer)
            if !own.isEmpty { handler(own) }
        }
    }
}

extension NamespacedKVStore: KVObservableStoring where Base: KVObservableStoring {
    public func observeChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation {
        base.observeChanges { names in
            guard let names else { return handler(nil) }
            let own = names.compactMap(outer)
            if !own.isEmpty { handler(own) }
        }
    }
}

extension NamespacedKVStore: KVIssueReporting where Base: KVIssueReporting {
    public func report(_ issue: KVStoreIssue) { base.report(issue) }
}
