import ForgeCoding
import Synchronization

/// What a store holds, by name, for everybody who reads: values found here cost no lock and no decoding.
///
/// A hash table with open addressing whose slots, entries and cells are only ever changed by one writer at a time
/// (``TableWriter``) and read meanwhile by anybody. A value is decoded when it is first read and kept so beside its bytes.
/// Encoding and decoding run outside every lock, because they run the code of the value's type.
final class ValueTable: @unchecked Sendable {
    // Invariant of the unchecked conformance: what the view leads to is read and changed atomically, and stays for as long
    // as a reader that has found it is inside the gate.

    /// How values are encoded, in every store.
    static let coder = ValueCoder(format: .binary)

    let view = TableView(SlotArray(exponent: 4))

    /// Where the entries are; used by the writer alone.
    let pool = EntryPool()

    init() {}

    deinit {
        var garbage = Retirement(pool)
        view.array.forEach { entry in garbage.retire(entry.exchange(.none)) }
        view.destroy()
    }
}

extension ValueTable {
    /// A value's bytes as every store keeps them, for a `set`. Without the key, for the type of which every call would ask the
    /// runtime.
    static func encoded<Value: Codable & Sendable>(
        _ value: Value, _ name: KeyName, version: UInt32, maximumSize: Int, store: String?
    ) throws(KVStoreError) -> EncodedBytes {
        try name.check(.set, in: store)
        let encoded: EncodedBytes
        do {
            encoded = try coder.encoded(value, schemaVersion: version)
        } catch {
            throw KVStoreError(.unencodable, .set, key: name.string, store: store, underlying: error)
        }
        guard encoded.count <= maximumSize else {
            throw KVStoreError(.valueTooLarge, .set, key: name.string, store: store)
        }
        return encoded
    }

    /// The value that bytes hold, migrated if they are of an earlier version than the key's.
    ///
    /// - Throws: `NewerSchema` for a later version, and what decoding and migrating throw.
    static func decode<Value: Codable & Sendable>(_ bytes: [UInt8], as key: KVKey<Value>) throws -> Value {
        let envelope = try ValueEnvelope(decoding: bytes)
        let version = key.schemaVersion
        if envelope.schemaVersion == version { return try coder.decode(Value.self, from: envelope) }
        guard envelope.schemaVersion <= version else { throw NewerSchema(version: envelope.schemaVersion) }
        guard let schema = key.schema else { return try coder.decode(Value.self, from: envelope) }
        return try schema.migrate(envelope)
    }

    /// A value's bytes, as ``encoded(_:_:maximumSize:store:)`` gives them.
    static func encode<Value: Codable & Sendable>(_ value: Value, for key: KVKey<Value>) throws -> [UInt8] {
        try coder.encode(value, schemaVersion: key.schemaVersion)
    }

    /// What stands in an entry for a value that was just encoded.
    @inline(__always)
    static func content<Value: Codable & Sendable>(
        _ value: Value, _ bytes: UnsafeRawBufferPointer, _ key: KVKey<Value>, revision: UInt64
    ) -> EntryContent {
        InlineTypes.contain(Value.self) && key.schema == nil
            ? EntryContent(value, revision: revision, encodedSize: bytes.count)
            : EntryContent(
                EncodedCell.copying(bytes, revision: revision, type: .encoded(key)))
    }
}

// MARK: Reading what has to be decoded

extension ValueTable {
    /// The value of a key in a cell that holds no value of its type. `keep` is called with what is to stand in the place of
    /// the cell, so that nobody has to decode it again.
    @inline(never)
    func decode<Value: Codable & Sendable>(
        _ cell: ValueCell, of key: KVKey<Value>, keep: (EntryContent) -> Void
    ) throws(UndecodableValue) -> Value {
        let value: Value
        do {
            value = try Self.decode(cell.bytes, as: key)
        } catch {
            throw UndecodableValue(cause: error, isNews: view.report(cell, of: key.identity))
        }
        // Of an object every reader gets a copy of its own; and a value that is read as two types is decoded each time.
        if let source = cell as? EncodedCell, !(Value.self is AnyObject.Type) {
            keep(
                InlineTypes.contain(Value.self) && key.schema == nil
                    ? EntryContent(value, revision: cell.revision, encodedSize: cell.encodedSize)
                    : EntryContent(TypedCell(value, from: source, key)))
        }
        return value
    }
}
