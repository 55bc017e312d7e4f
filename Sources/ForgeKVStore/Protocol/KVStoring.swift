/// A store of typed values by name.
///
/// ``FileKVStore`` and ``UserDefaultsKVStore`` keep values on disk, ``InMemoryKVStore`` in memory; ``ReactiveKVStore``
/// adds streams to any of them. A custom store needs only the first five requirements; the others have defaults.
///
/// All calls are thread-safe. Once `set` returns, every later `get` in any thread returns the value. Values are copied
/// by encoding: a value that is read equals the one that was set, as far as its encoding preserves it, and is never the
/// same object.
public protocol KVStoring: Sendable {
    /// The value of a key; nil if it is absent, has another type, or cannot be read.
    ///
    /// To tell these apart, call ``read(_:)``.
    func get<T>(_ key: KVKey<T>) -> T?

    /// Stores a value, replacing any existing one.
    ///
    /// Nil of an optional type is a value: the key exists and its value is nil.
    ///
    /// - Throws: ``KVStoreError``. The old value is kept unless the code is `.durabilityUnknown`.
    func set<T>(_ key: KVKey<T>, value: T) throws

    /// Removes a key and its value; has no effect if the key is absent.
    func remove<T>(_ key: KVKey<T>) throws

    /// Whether the key has a value, of any type.
    func contains<T>(_ key: KVKey<T>) -> Bool

    /// Removes every key, or none if it throws.
    func removeAll() throws

    // MARK: With defaults

    /// The value of a key; nil only if it is absent.
    ///
    /// - Throws: ``KVStoreError``: `.undecodable` if the value is not of this type, `.unavailable` if the store cannot
    ///   be read. The default forwards to ``get(_:)`` and so cannot tell these from an absent key.
    func read<T>(_ key: KVKey<T>) throws -> T?

    /// The names of all keys, in no particular order.
    ///
    /// - Throws: ``KVStoreError``, `.unsupported` by default.
    func keys() throws -> [String]

    /// The encoded value of a name, of any type; nil if it is absent.
    ///
    /// For tools and wrapping stores. `ForgeCoding` decodes the bytes.
    ///
    /// - Throws: ``KVStoreError``, `.unsupported` by default.
    func rawValue(named name: String) throws -> [UInt8]?

    /// Stores an encoded value, as returned by ``rawValue(named:)``.
    ///
    /// The bytes are not validated; invalid bytes fail when they are read.
    ///
    /// - Throws: ``KVStoreError``, `.unsupported` by default.
    func setRawValue(_ bytes: [UInt8], named name: String) throws

    /// Removes a name and its value, of any type; has no effect if it is absent.
    ///
    /// - Throws: ``KVStoreError``, `.unsupported` by default.
    func removeValue(named name: String) throws

    /// The encoded value of a name and its revision; nil if it is absent.
    ///
    /// - Throws: ``KVStoreError``, `.unsupported` by default.
    func entry(named name: String) throws -> KVEntry?

    /// All names and values at one instant.
    ///
    /// - Throws: ``KVStoreError``, `.unsupported` by default.
    func snapshot() throws -> KVSnapshot

    /// Applies the changes of a batch atomically if its requirements hold.
    ///
    /// - Throws: ``KVStoreError``: `.conflict` if a requirement does not hold; `.unsupported` by default. Nothing was
    ///   changed unless the code is `.durabilityUnknown`.
    func commit(_ batch: KVBatch) throws

    /// Waits until every earlier write is durable against a power cut.
    ///
    /// - Throws: ``KVStoreError``, `.unsupported` by default.
    func synchronize() throws

    /// Observes changes made by other processes to a shared store.
    ///
    /// - Parameter handler: Called with the names whose values may have changed, or nil if any may have. Calls come one
    ///   at a time, in another thread, after the change has become visible to reads; several changes may be coalesced.
    /// - Returns: The observation, which ends when it is released; nil, the default, if the store is not shared or does
    ///   not support observation.
    func observeRemoteChanges(_ handler: @escaping @Sendable (_ names: [String]?) -> Void) -> KVObservation?
}

extension KVStoring {
    public func read<T>(_ key: KVKey<T>) throws -> T? { get(key) }

    public func keys() throws -> [String] { throw KVStoreError(.unsupported, .keys) }

    public func rawValue(named name: String) throws -> [UInt8]? {
        throw KVStoreError(.unsupported, .read, key: name)
    }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        throw KVStoreError(.unsupported, .set, key: name)
    }

    public func removeValue(named name: String) throws {
        throw KVStoreError(.unsupported, .remove, key: name)
    }

    public func entry(named name: String) throws -> KVEntry? {
        throw KVStoreError(.unsupported, .read, key: name)
    }

    public func snapshot() throws -> KVSnapshot { throw KVStoreError(.unsupported, .snapshot) }

    public func commit(_ batch: KVBatch) throws { throw KVStoreError(.unsupported, .batch) }

    public func synchronize() throws { throw KVStoreError(.unsupported, .synchronize) }

    public func observeRemoteChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation? { nil }
}
