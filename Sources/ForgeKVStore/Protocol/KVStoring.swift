/// A store of typed values by name.
///
/// ``FileKVStore`` and ``UserDefaultsKVStore`` keep values on disk, ``InMemoryKVStore`` in memory; ``ReactiveKVStore``
/// adds streams to any of them. ``KVRawStoring`` and ``KVTransactionalStoring`` have more calls, for stores that can
/// keep their promises. A custom store needs five calls; `read` has a default.
///
/// All calls are thread-safe. Once `set` returns, every later `get` in any thread returns the value. Values are copied
/// by encoding: a value that is read equals the one that was set, as far as its encoding preserves it, and is never the
/// same object.
public protocol KVStoring: Sendable {
    /// The value of a key; nil if it is absent, has another type, or cannot be read.
    ///
    /// To tell these apart, call ``KVStoring/read(_:)``.
    func get<T>(_ key: KVKey<T>) -> T?

    /// Stores a value, replacing any existing one.
    ///
    /// Nil of an optional type is a value: the key exists and its value is nil.
    ///
    /// - Throws: ``KVStoreError``. The old value is kept unless the code is `.durabilityUnknown` or `.unknownOutcome`.
    func set<T>(_ key: KVKey<T>, value: T) throws

    /// Removes a key and its value; has no effect if the key is absent.
    func remove<T>(_ key: KVKey<T>) throws

    /// Whether the key has a value, of any type.
    func contains<T>(_ key: KVKey<T>) -> Bool

    /// Removes every key, or none if it throws.
    func removeAll() throws

    /// The value of a key; nil only if it is absent.
    ///
    /// - Throws: ``KVStoreError``: `.undecodable` if the value is not of this type, `.unavailable` if the store cannot
    ///   be read. The default forwards to ``KVStoring/get(_:)`` and so cannot tell these from an absent key.
    func read<T>(_ key: KVKey<T>) throws -> T?
}

extension KVStoring {
    public func read<T>(_ key: KVKey<T>) throws -> T? { get(key) }
}
