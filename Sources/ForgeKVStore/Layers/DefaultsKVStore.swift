/// A key-value store with another one behind it, which gives the values that are not there.
///
/// Reads find the value of the store in front and, where it has none, that of the store behind. Writes change the store
/// in front only: after a removal the default shows again, so that `contains` may be true after `remove` and after
/// ``removeAll()``. A value in front that cannot be read as the type of the key is not replaced by the default.
///
/// A default has the revision 0, which no store gives to a value of its own.
/// ``KVTransactionalStoring/update(_:default:_:)`` passes the default to its closure if there is no value, and
/// ``KVTransactionalStoring/createIfAbsent(_:value:)-(KVKey<T>,_)`` stores nothing and returns false, because a key with a
/// default is not absent. The store behind is taken to be constant; if it is changed while a call runs, that call may see
/// it before or after.
public struct DefaultsKVStore<Base: KVStoring, Defaults: KVStoring>: KVWriteForwarding {
    public let base: Base
    private let defaults: Defaults

    /// The revision of a default.
    private static var defaultRevision: UInt64 { 0 }

    /// The store `base`, with `defaults` behind it.
    public init(_ base: Base, defaults: Defaults) {
        self.base = base
        self.defaults = defaults
    }

    public func get<T>(_ key: KVKey<T>) -> T? {
        do {
            // One call, so that no write comes between the value and whether there is one.
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

extension DefaultsKVStore: KVRawStoring where Base: KVRawStoring, Defaults: KVRawStoring {
    /// The names in front and behind, each once.
    public func keys() throws -> [String] {
        Array(Set(try (base.keys() + defaults.keys()).map(KeyName.init))).map(\.string)
    }

    public func rawValue(named name: String) throws -> [UInt8]? {
        if let bytes = try base.rawValue(named: name) { return bytes }
        return try defaults.rawValue(named: name)
    }
}

extension DefaultsKVStore: KVTransactionalStoring where Base: KVTransactionalStoring, Defaults: KVRawStoring {
    public func entry(named name: String) throws -> KVEntry? {
        if let entry = try base.entry(named: name) { return entry }
        return try defaults.rawValue(named: name).map { KVEntry(bytes: $0, revision: Self.defaultRevision) }
    }

    /// The store in front at one moment, with the defaults as they are at another.
    public func snapshot() throws -> KVSnapshot {
        var entries: [(name: String, entry: KVEntry)] = []
        for name in try defaults.keys() {
            guard let bytes = try defaults.rawValue(named: name) else { continue }
            entries.append((name, KVEntry(bytes: bytes, revision: Self.defaultRevision)))
        }
        return KVSnapshot(entries + Array(try base.snapshot()))
    }

    public func observeRemoteChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation? {
        KVObservation(base.observeRemoteChanges(handler), defaults.transactional?.observeRemoteChanges(handler))
    }

    /// Makes changes in front; a requirement holds for what is seen, a default included.
    public func commit(_ batch: KVBatch) throws {
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

    public func synchronize() throws { try base.synchronize() }
}

extension DefaultsKVStore: KVObservableStoring where Base: KVObservableStoring {
    /// Observes the store in front.
    public func observeChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation {
        base.observeChanges(handler)
    }
}
