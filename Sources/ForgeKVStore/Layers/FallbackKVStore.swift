/// A key-value store with another one that supplies default values.
///
/// Reads return the value of the base store or, if it has none, the default. Writes change the base store only: after a
/// removal the default is visible again, so `contains` may be true after `remove` and after ``removeAll()``. A value in
/// the base store that cannot be decoded as the key's type is not replaced by the default.
///
/// A default has the revision 0, which no store assigns to its own values.
/// ``KVTransactionalStoring/update(_:default:durability:_:)`` passes the default to its closure if there is no value,
/// and ``KVTransactionalStoring/createIfAbsent(_:value:)-(KVKey<T>,_)`` stores nothing and returns false, because a key
/// with a default is not absent. The store of defaults should be constant; if it is changed during a call, that call
/// may see it before or after the change.
public struct FallbackKVStore<Base: KVStoring, Defaults: KVStoring>: KVLayer, KVStoring {
    public let base: Base
    private let defaults: Defaults

    /// The revision of a default.
    private static var defaultRevision: UInt64 { 0 }

    /// Adds the values of `defaults` to `base`.
    public init(_ base: Base, defaults: Defaults) {
        self.base = base
        self.defaults = defaults
    }

    public func get<T>(_ key: KVKey<T>) -> T? {
        do {
            // One call, so that no write occurs between reading the value and checking its existence.
            if let value = try base.read(key) { return value }
        } catch {
            return base.get(key)  // `get` reports the value to the handler of its store.
        }
        return defaults.get(key)
    }

    public func read<T>(_ key: KVKey<T>) throws -> T? {
        if let value = try base.read(key) { return value }
        return try defaults.read(key)
    }

    public func contains<T>(_ key: KVKey<T>) -> Bool { base.contains(key) || defaults.contains(key) }
}

extension FallbackKVStore: KVRawStoring where Base: KVRawStoring, Defaults: KVRawStoring {
    /// The names in both stores, each once.
    public func keys() throws -> [String] {
        Array(Set(try (base.keys() + defaults.keys()).map(KeyName.init))).map(\.string)
    }

    public func rawValue(named name: String) throws -> [UInt8]? {
        if let bytes = try base.rawValue(named: name) { return bytes }
        return try defaults.rawValue(named: name)
    }
}

extension FallbackKVStore: KVTransactionalStoring where Base: KVTransactionalStoring, Defaults: KVRawStoring {
    public func entry(named name: String) throws -> KVEntry? {
        if let entry = try base.entry(named: name) { return entry }
        return try defaults.rawValue(named: name).map { KVEntry(bytes: $0, revision: Self.defaultRevision) }
    }

    /// A snapshot of the base store, combined with one of the defaults taken at another time.
    public func snapshot() throws -> KVSnapshot {
        var entries: [(name: String, entry: KVEntry)] = []
        for name in try defaults.keys() {
            guard let bytes = try defaults.rawValue(named: name) else { continue }
            entries.append((name, KVEntry(bytes: bytes, revision: Self.defaultRevision)))
        }
        return KVSnapshot(entries + Array(try base.snapshot()))
    }

    /// Applies changes to the base store; a requirement applies to the visible value, including a default.
    public func commit(_ batch: KVBatch) throws {
        try batch.validateNames()
        var inner = KVBatch()
        for (change, type) in zip(batch.changes, batch.types) { inner.append(change, type) }
        for requirement in batch.requirements {
            switch requirement.revision {
            case nil, Self.defaultRevision:
                let hasDefault = try defaults.rawValue(named: requirement.name) != nil
                guard hasDefault == (requirement.revision != nil) else {
                    throw KVStoreError(.conflict, .batch, key: requirement.name)
                }
                inner.require(requirement.name, revision: nil)
            case let revision?:
                inner.require(requirement.name, revision: revision)
            }
        }
        try base.commit(inner)
    }
}

extension FallbackKVStore {
    /// Reports the changes of the base store, and those of the store of defaults if it reports any. Of a prefix, those
    /// that may hide or show a default are ``KVChange/resync``.
    public func subscribe(to scope: KVScope) -> KVChanges? {
        base.subscribe(to: scope).map { .combining($0, over: defaults.subscribe(to: scope), in: scope) }
    }
}
