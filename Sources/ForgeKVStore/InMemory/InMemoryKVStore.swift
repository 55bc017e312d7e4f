/// A key-value store in memory, for tests: it behaves as ``FileKVStore`` does and forgets everything with the process.
///
/// Values are encoded when they are set and decoded when they are read, by the same code as on disk, so a value that
/// cannot be encoded fails here too, and what is read has gone through the same rounding.
public final class InMemoryKVStore: KVStoring {
    private let table = ValueTable()
    private let maximumValueSize: Int

    /// An empty store.
    ///
    /// - Parameter maximumValueSizeInBytes: The longest encoded value; a longer one is refused with `.valueTooLarge`.
    public init(maximumValueSizeInBytes: Int = FileKVStore.Options().maximumValueSizeInBytes) {
        maximumValueSize = maximumValueSizeInBytes
    }

    public func get<T>(_ key: KVKey<T>) -> T? {
        do {
            return try table.value(of: key)
        } catch {
            return nil
        }
    }

    public func read<T>(_ key: KVKey<T>) throws -> T? {
        try key.identity.check(.read, in: nil)
        do {
            return try table.value(of: key)
        } catch {
            throw KVStoreError(.undecodable, .read, key: key.name, underlying: error.cause)
        }
    }

    public func set<T>(_ key: KVKey<T>, value: T) throws {
        let bytes = try ValueTable.encode(value, key, maximumSize: maximumValueSize, store: nil)
        table.store(bytes, key.identity, box: .ofExact(value))
    }

    public func remove<T>(_ key: KVKey<T>) throws {
        try key.identity.check(.remove, in: nil)
        table.remove(key.identity)
    }

    public func contains<T>(_ key: KVKey<T>) -> Bool {
        table.contains(key.identity)
    }

    public func removeAll() throws {
        table.removeAll()
    }

    public func keys() throws -> [String] {
        table.names
    }

    public func rawValue(named name: String) throws -> [UInt8]? {
        let name = KeyName(name)
        try name.check(.read, in: nil)
        return table.bytes(of: name)
    }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        let name = KeyName(name)
        try name.check(.set, in: nil)
        guard bytes.count <= maximumValueSize else { throw KVStoreError(.valueTooLarge, .set, key: name.string) }
        table.store(bytes, name, box: nil)
    }

    public func removeValue(named name: String) throws {
        let name = KeyName(name)
        try name.check(.remove, in: nil)
        table.remove(name)
    }
}
