/// A store of values by name: what code that keeps settings depends on.
///
/// ``FileKVStore`` and ``UserDefaultsKVStore`` keep values on disk, ``InMemoryKVStore`` in memory, for tests;
/// ``ReactiveKVStore`` adds streams to any of them. An app's own type conforms with the first five calls alone; every
/// other requirement has a default.
///
/// Every call may come from any thread. A value that was set is what every later `get` returns, in any thread. Values
/// are copied by encoding: what is read is equal to what was set, as far as encoding and decoding keep it, and never
/// the same object.
public protocol KVStoring: Sendable {
    /// The value of a key; nil if there is none, or none of this type, or the store cannot be read.
    ///
    /// Where that difference matters, call ``read(_:)``.
    func get<T>(_ key: KVKey<T>) -> T?

    /// Stores a value, replacing the one that was there.
    ///
    /// Nil of an optional type is a value like any other: the key is there, and its value is nil.
    ///
    /// - Throws: ``KVStoreError``. The old value is still there, unless the code is
    ///   `.durabilityUnknown`.
    func set<T>(_ key: KVKey<T>, value: T) throws

    /// Removes a key and its value; without effect if there is none.
    func remove<T>(_ key: KVKey<T>) throws

    /// Whether there is a value, of whatever type.
    func contains<T>(_ key: KVKey<T>) -> Bool

    /// Removes every key: all of them, or none if it throws.
    func removeAll() throws

    // MARK: With a default

    /// The value of a key; nil only if there is none.
    ///
    /// - Throws: ``KVStoreError``: `.undecodable` if the value is not of this type, `.unavailable` if the store cannot be
    ///   read. The default forwards to ``get(_:)`` and so cannot tell these from an absent key.
    func read<T>(_ key: KVKey<T>) throws -> T?

    /// The names of all keys, in no particular order.
    ///
    /// - Throws: ``KVStoreError``, `.unsupported` by default.
    func keys() throws -> [String]

    /// The value of a name as it is encoded, whatever its type; nil if there is none.
    ///
    /// For tools and for stores that wrap a store. `ForgeCoding` decodes the bytes.
    ///
    /// - Throws: ``KVStoreError``, `.unsupported` by default.
    func rawValue(named name: String) throws -> [UInt8]?

    /// Stores a value that is encoded already, as ``rawValue(named:)`` gave it.
    ///
    /// The bytes are not looked at: what cannot be decoded is told when it is read.
    ///
    /// - Throws: ``KVStoreError``, `.unsupported` by default.
    func setRawValue(_ bytes: [UInt8], named name: String) throws

    /// Removes a name and its value, whatever its type; without effect if there is none.
    ///
    /// - Throws: ``KVStoreError``, `.unsupported` by default.
    func removeValue(named name: String) throws

    /// The value of a name as it is encoded, and its revision; nil if there is none.
    ///
    /// - Throws: ``KVStoreError``, `.unsupported` by default.
    func entry(named name: String) throws -> KVEntry?

    /// All names with their values at one moment.
    ///
    /// - Throws: ``KVStoreError``, `.unsupported` by default.
    func snapshot() throws -> KVSnapshot

    /// Makes changes together, if what they require holds.
    ///
    /// - Throws: ``KVStoreError``: `.conflict` if it does not hold; `.unsupported` by default. Nothing was changed, unless
    ///   the code is `.durabilityUnknown`.
    func commit(_ batch: KVBatch) throws

    /// Makes everything that was written durable: it survives a power cut when the call returns.
    ///
    /// - Throws: ``KVStoreError``, `.unsupported` by default, because nothing is known of it.
    func synchronize() throws

    /// Calls a handler after each change that was made neither through this object nor through another one in this process:
    /// by another process, in a store that is shared.
    ///
    /// - Parameter tell: Is given the names whose values may have changed, or nil if any may have. It is called in another
    ///   thread, one call after the other, and finds the change when it reads. Several changes may be told as one.
    /// - Returns: What keeps the handler being called for as long as it lives; nil, which is the default, for a store in which
    ///   nothing changes elsewhere, or that cannot tell.
    func changesElsewhere(_ tell: @escaping @Sendable (_ names: [String]?) -> Void) -> KVObservation?
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

    public func changesElsewhere(_ tell: @escaping @Sendable ([String]?) -> Void) -> KVObservation? { nil }
}
