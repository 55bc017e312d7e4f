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
}

extension KVStoring {
    /// The store inside an ``AnyKVStore``, which may have more abilities; any other store itself.
    var unerased: any KVStoring { (self as? AnyKVStore)?.base ?? self }

    /// The store as a transactional one, if it is one at run time.
    var transactional: (any KVTransactionalStoring)? { unerased as? any KVTransactionalStoring }
}
