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

    let view = TableView(SlotArray(count: 16))

    init() {}

    deinit { view.destroy() }
}

extension ValueTable {
    /// Encodes a value as every store keeps it and calls `body` with the bytes.
    @inline(__always)
    static func withEncoded<Value: Codable & Sendable, Result>(
        _ value: Value, _ key: KVKey<Value>, maximumSize: Int, store: String?,
        _ body: (UnsafeRawBufferPointer) throws(KVStoreError) -> Result
    ) throws(KVStoreError) -> Result {
        try key.identity.check(.set, in: store)
        return try coder.withEncoded(value, schemaVersion: key.schemaVersion) { (encoded) throws(KVStoreError) in
            switch encoded {
            case .success(let bytes):
                guard bytes.count <= maximumSize else {
                    throw KVStoreError(.valueTooLarge, .set, key: key.name, store: store)
                }
                return try body(bytes)
            case .failure(let error):
                throw KVStoreError(.unencodable, .set, key: key.name, store: store, underlying: error)
            }
        }
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

    /// A value's bytes, as ``withEncoded(_:_:maximumSize:store:_:)`` has them.
    static func encode<Value: Codable & Sendable>(_ value: Value, for key: KVKey<Value>) throws -> [UInt8] {
        try coder.encode(value, schemaVersion: key.schemaVersion)
    }

    /// The cell for a value that was just encoded.
    @inline(__always)
    static func cell<Value: Codable & Sendable>(
        _ value: Value, _ bytes: UnsafeRawBufferPointer, _ key: KVKey<Value>, revision: UInt64
    ) -> ValueCell {
        ExactTypes.contain(Value.self) && key.schema == nil
            ? TypedCell(exact: value, revision: revision, encodedSize: bytes.count)
            : EncodedCell(
                Array(bytes), revision: revision,
                writtenAs: key.schema == nil
                    ? EncodedCell.mark(of: Value.self) : EncodedCell.versionedMark(of: Value.self))
    }
}
