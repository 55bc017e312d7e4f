/// Any key-value store as one type, so that generic layers can wrap an `any KVStoring`.
///
/// ```swift
/// final class Settings {
///     private let store: ReactiveKVStore<AnyKVStore>
///
///     init(store: any KVStoring) { self.store = ReactiveKVStore(AnyKVStore(store)) }
/// }
/// ```
///
/// A layer over it has only the calls of ``KVStoring``; the streams of a ``ReactiveKVStore`` use what the store can do.
public struct AnyKVStore: KVStoring {
    /// The store.
    public let base: any KVStoring

    /// Hides the type of a store.
    public init(_ store: any KVStoring) { base = store.unerased }

    public func get<T>(_ key: KVKey<T>) -> T? { base.get(key) }

    public func read<T>(_ key: KVKey<T>) throws -> T? { try base.read(key) }

    public func contains<T>(_ key: KVKey<T>) -> Bool { base.contains(key) }

    public func set<T>(_ key: KVKey<T>, value: T) throws { try base.set(key, value: value) }

    public func remove<T>(_ key: KVKey<T>) throws { try base.remove(key) }

    public func removeAll() throws { try base.removeAll() }
}

extension KVStoring {
    /// The store in an ``AnyKVStore``, which may have calls that the type eraser hides; any other store itself.
    var unerased: any KVStoring { (self as? AnyKVStore)?.base ?? self }

    /// The store with the calls of a transactional one, if it has them at run time.
    var transactional: (any KVTransactionalStoring)? { unerased as? any KVTransactionalStoring }
}
