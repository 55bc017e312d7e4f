/// A store that adds one ability to another one and forwards the rest.
///
/// A layer declares the protocols of stores that it conforms to, and implements the calls that it changes; all others
/// are forwarded to ``base``. One type can be a layer of stores on this machine and of stores on servers, by conforming
/// to the protocols that its base conforms to (``ReadOnlyKVStore`` does).
///
/// The compiler does not remind a layer of a call that it should change: a layer that changes how values are written has
/// to implement each write (`set`, `remove`, `removeAll`; of ``KVRawStoring`` `setRawValue` and `removeValue`; of
/// ``KVTransactionalStoring`` and ``AsyncKVStoring`` `commit`). <doc:Layering-stores> shows an example.
public protocol KVLayer<Base>: Sendable {
    associatedtype Base: Sendable

    /// The base store.
    var base: Base { get }
}

extension KVLayer where Self: KVStoring, Base: KVStoring {
    public func get<T>(_ key: KVKey<T>) -> T? { base.get(key) }

    public func read<T>(_ key: KVKey<T>) throws -> T? { try base.read(key) }

    public func contains<T>(_ key: KVKey<T>) -> Bool { base.contains(key) }

    public func set<T>(_ key: KVKey<T>, value: T) throws { try base.set(key, value: value) }

    public func remove<T>(_ key: KVKey<T>) throws { try base.remove(key) }

    public func removeAll() throws { try base.removeAll() }

    public func report(_ issue: KVStoreIssue) { base.report(issue) }

    public func subscribe(to scope: KVScope) -> KVChanges? { base.subscribe(to: scope) }
}

extension KVLayer where Self: KVRawStoring, Base: KVRawStoring {
    public func keys() throws -> [String] { try base.keys() }

    public func rawValue(named name: String) throws -> [UInt8]? { try base.rawValue(named: name) }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try base.setRawValue(bytes, named: name)
    }

    public func removeValue(named name: String) throws { try base.removeValue(named: name) }
}

extension KVLayer where Self: KVTransactionalStoring, Base: KVTransactionalStoring {
    public func entry(named name: String) throws -> KVEntry? { try base.entry(named: name) }

    public func snapshot() throws -> KVSnapshot { try base.snapshot() }

    public func commit(_ batch: KVBatch) throws { try base.commit(batch) }

    public func synchronize() throws { try base.synchronize() }
}

extension KVLayer where Self: AsyncKVStoring, Base: AsyncKVStoring {
    public func capabilities() async throws(KVStoreError) -> AsyncKVCapabilities { try await base.capabilities() }

    public func entry(named name: String) async throws(KVStoreError) -> KVEntry? { try await base.entry(named: name) }

    public func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        try await base.keys(prefix: prefix, after: after, limit: limit)
    }

    public func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        try await base.entries(prefix: prefix, after: after, limit: limit, at: revision)
    }

    @discardableResult
    public func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        try await base.commit(batch, timeToLive: timeToLive)
    }

    public func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        base.changes(prefix: prefix, from: revision)
    }
}

extension KVStoring {
    /// The store as a transactional one, if it is one at run time.
    var transactional: (any KVTransactionalStoring)? { self as? any KVTransactionalStoring }
}

/// A read-only view of a key-value store, on this machine or on servers.
///
/// Every call that would change a value throws ``KVStoreError`` with the code `.readOnly`, even if it would have no
/// effect, except that ``KVTransactionalStoring/updateIfPresent(_:durability:_:)`` and
/// ``KVTransactionalStoring/removeIfPresent(_:durability:)`` of an absent key return. Changes made through the base store
/// are visible.
///
/// This prevents mistakes, not access: ``base`` is the store itself. A function that takes `some KVStoring` cannot
/// access it.
public struct ReadOnlyKVStore<Base: Sendable>: KVLayer {
    public let base: Base

    /// Creates a read-only view of `base`.
    public init(_ base: Base) {
        self.base = base
    }
}

extension ReadOnlyKVStore: KVStoring where Base: KVStoring {
    public func set<T>(_ key: KVKey<T>, value: T) throws { throw KVStoreError(.readOnly, .set, key: key.name) }

    public func remove<T>(_ key: KVKey<T>) throws { throw KVStoreError(.readOnly, .remove, key: key.name) }

    public func removeAll() throws { throw KVStoreError(.readOnly, .removeAll) }
}

extension ReadOnlyKVStore: KVRawStoring where Base: KVRawStoring {
    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        throw KVStoreError(.readOnly, .set, key: name)
    }

    public func removeValue(named name: String) throws { throw KVStoreError(.readOnly, .remove, key: name) }
}

extension ReadOnlyKVStore: KVTransactionalStoring where Base: KVTransactionalStoring {
    public func commit(_ batch: KVBatch) throws { throw KVStoreError(.readOnly, .batch) }
}

extension ReadOnlyKVStore: AsyncKVStoring where Base: AsyncKVStoring {
    @discardableResult
    public func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        throw KVStoreError(.readOnly, .batch)
    }
}

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
        let snapshot = try base.snapshot()
        return KVSnapshot(entries + Array(snapshot), above: snapshot)
    }

    /// Applies changes to the base store; a requirement applies to the visible value, including a default.
    public func commit(_ batch: KVBatch) throws {
        try batch.validateNames()
        var inner = KVBatch()
        for (change, type) in zip(batch.changes, batch.types) { inner.append(change, type) }
        for requirement in batch.requirements {
            switch requirement.revision {
            case Self.defaultRevision where try base.entry(named: requirement.name)?.revision == Self.defaultRevision:
                // A default of the base store, which checks that it is still visible.
                inner.require(requirement.name, revision: Self.defaultRevision)
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
