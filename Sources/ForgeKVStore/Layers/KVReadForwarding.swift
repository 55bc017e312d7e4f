/// A store that forwards its reads to another one, for stores that change only how values are written.
///
/// A wrapper declares what it forwards, and the compiler requires the rest: one that conforms only to this protocol
/// must implement every write, so it cannot forward one by mistake. <doc:Layering-stores> shows an example.
public protocol KVReadForwarding<Base>: KVStoring {
    associatedtype Base: KVStoring

    /// The base store.
    var base: Base { get }
}

extension KVReadForwarding {
    public func get<T>(_ key: KVKey<T>) -> T? { base.get(key) }

    public func read<T>(_ key: KVKey<T>) throws -> T? { try base.read(key) }

    public func contains<T>(_ key: KVKey<T>) -> Bool { base.contains(key) }

    public func report(_ issue: KVStoreIssue) { base.report(issue) }

    public func observeChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation? {
        base.observeChanges(handler)
    }
}

extension KVReadForwarding where Base: KVRawStoring {
    public func keys() throws -> [String] { try base.keys() }

    public func rawValue(named name: String) throws -> [UInt8]? { try base.rawValue(named: name) }
}

extension KVReadForwarding where Base: KVTransactionalStoring {
    public func entry(named name: String) throws -> KVEntry? { try base.entry(named: name) }

    public func snapshot() throws -> KVSnapshot { try base.snapshot() }

    public func synchronize() throws { try base.synchronize() }
}

/// A store that forwards its writes to another one, for stores that change only how values are read.
///
/// Together with ``KVReadForwarding``, a wrapper need implement only the calls that it changes.
public protocol KVWriteForwarding<Base>: KVStoring {
    associatedtype Base: KVStoring

    /// The base store.
    var base: Base { get }
}

extension KVWriteForwarding {
    public func set<T>(_ key: KVKey<T>, value: T) throws { try base.set(key, value: value) }

    public func remove<T>(_ key: KVKey<T>) throws { try base.remove(key) }

    public func removeAll() throws { try base.removeAll() }
}

extension KVWriteForwarding where Base: KVRawStoring {
    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try base.setRawValue(bytes, named: name)
    }

    public func removeValue(named name: String) throws { try base.removeValue(named: name) }
}

extension KVWriteForwarding where Base: KVTransactionalStoring {
    public func commit(_ batch: KVBatch) throws { try base.commit(batch) }
}

/// A read-only view of a key-value store.
///
/// Every call that would change a value throws ``KVStoreError`` with the code `.readOnly`, even if it would have no
/// effect. Changes made through the base store are visible.
///
/// This prevents mistakes, not access: ``base`` is the store itself. A function that takes `some KVStoring` cannot
/// access it.
public struct ReadOnlyKVStore<Base: KVStoring>: KVReadForwarding {
    public let base: Base

    /// Creates a read-only view of `base`.
    public init(_ base: Base) {
        self.base = base
    }

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

/// A type-erased key-value store, so that generic layers can wrap an `any KVStoring`.
///
/// ```swift
/// final class Settings {
///     private let store: ReactiveKVStore<AnyKVStore>
///
///     init(store: any KVStoring) { self.store = ReactiveKVStore(AnyKVStore(store)) }
/// }
/// ```
///
/// A layer over it has only the calls of ``KVStoring``; the streams of a ``ReactiveKVStore`` use all abilities of the
/// base store.
public struct AnyKVStore: KVStoring {
    /// The store.
    public let base: any KVStoring

    /// Erases the type of a store.
    public init(_ store: any KVStoring) { base = store.unerased }

    public func get<T>(_ key: KVKey<T>) -> T? { base.get(key) }

    public func read<T>(_ key: KVKey<T>) throws -> T? { try base.read(key) }

    public func contains<T>(_ key: KVKey<T>) -> Bool { base.contains(key) }

    public func set<T>(_ key: KVKey<T>, value: T) throws { try base.set(key, value: value) }

    public func remove<T>(_ key: KVKey<T>) throws { try base.remove(key) }

    public func removeAll() throws { try base.removeAll() }

    public func report(_ issue: KVStoreIssue) { base.report(issue) }

    public func observeChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation? {
        base.observeChanges(handler)
    }
}

extension KVStoring {
    /// The store inside an ``AnyKVStore``, which may have more abilities; any other store itself.
    var unerased: any KVStoring { (self as? AnyKVStore)?.base ?? self }

    /// The store as a transactional one, if it is one at run time.
    var transactional: (any KVTransactionalStoring)? { unerased as? any KVTransactionalStoring }
}

/// A type-erased ``KVTransactionalStoring``; see ``AnyKVStore``.
public struct AnyKVTransactionalStore: KVReadForwarding, KVWriteForwarding, KVTransactionalStoring {
    public let base: AnyKVStore
    private let transactional: any KVTransactionalStoring

    /// Erases the type of a store.
    public init(_ store: any KVTransactionalStoring) {
        base = AnyKVStore(store)
        transactional = store
    }

    public func keys() throws -> [String] { try transactional.keys() }

    public func rawValue(named name: String) throws -> [UInt8]? { try transactional.rawValue(named: name) }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try transactional.setRawValue(bytes, named: name)
    }

    public func removeValue(named name: String) throws { try transactional.removeValue(named: name) }

    public func entry(named name: String) throws -> KVEntry? { try transactional.entry(named: name) }

    public func snapshot() throws -> KVSnapshot { try transactional.snapshot() }

    public func commit(_ batch: KVBatch) throws { try transactional.commit(batch) }

    public func synchronize() throws { try transactional.synchronize() }
}
