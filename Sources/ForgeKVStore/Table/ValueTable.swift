import ForgeCoding
import Synchronization

// Memory safety: A cell stays alive while the writer, which alone removes it, looks at it. A reader takes a cell's
// address inside the critical section that keeps the cell alive, and leaves that only after the copy or the retain. A
// schema has the type of its key, which is that of the `WrittenAs`.

/// The values of a store by name; a read of a decoded value takes no lock.
///
/// A hash table with open addressing. One writer at a time (``TableWriter``) changes its slots, entries and cells,
/// beside any number of readers. A value is decoded when it is first read and kept beside its bytes. Encoding and
/// decoding run outside every lock, because they run the code of the value's type.
final class ValueTable: @unchecked Sendable {
    // Invariant of the unchecked conformance: what the view leads to is read and changed atomically, and stays for as
    // long as a reader that has found it is inside a read-side critical section.

    /// How values are encoded, in every store.
    static let coder = {
        var coder = ValueCoder()
        // Each store has a limit of its own, up to that of the format.
        coder.maximumSize = LogRecord.maximumPayloadSize
        return coder
    }()

    let view = TableView(SlotArray(exponent: 4))

    /// Where the entries are; used by the writer alone.
    let pool = EntryPool()

    /// The memory of loaded encoded values; used by the writer alone.
    let arena = ValueArena()

    init() {}

    deinit {
        var garbage = DeferredReclamation(pool)
        view.array.forEach { entry in garbage.retire(entry.exchange(.empty)) }
        view.destroy()
    }
}

extension ValueTable {
    /// A value's bytes as every store keeps them, for a `set`. Without the key, for the type of which every call would
    /// ask the runtime.
    static func encoded<Value: Codable & Sendable>(
        _ value: Value, _ name: KeyName, version: UInt32, maximumSize: Int, store: String?
    ) throws(KVStoreError) -> EncodedBytes {
        try name.validate(.set, in: store)
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
        guard envelope.schemaVersion <= version else { throw NewerSchema(version: envelope.schemaVersion) }
        guard envelope.schemaVersion < version, let schema = key.schema else {
            return try coder.decode(Value.self, from: envelope)
        }
        return try schema.migrate(envelope)
    }

    /// A value's bytes, as ``encoded(_:_:maximumSize:store:)`` gives them.
    static func encode<Value: Codable & Sendable>(_ value: Value, for key: KVKey<Value>) throws -> [UInt8] {
        try coder.encode(value, schemaVersion: key.schemaVersion)
    }
}

// MARK: Decoding

extension ValueTable {
    /// The value of a key in a cell that holds no value of its type. `keep` is called with what is to replace the cell,
    /// so that later reads need not decode.
    @inline(never)
    func decode<Value: Codable & Sendable>(
        _ cell: ValueCell, of key: KVKey<Value>, keep: (EntryContent) -> Void
    ) throws(UndecodableValue) -> Value {
        let value: Value
        do {
            value = try Self.decode(cell.bytes, as: key)
        } catch {
            throw UndecodableValue(cause: error, revision: cell.revision)
        }
        // A value that is read as two types is decoded by each read of the second.
        if let source = cell as? EncodedCell, let content = Self.decodedContent(value, from: source, key) {
            keep(content)
        }
        return value
    }

    /// The content that may replace a decoded cell; nil if every read has to decode it.
    ///
    /// The bytes that were stored stay authoritative: a value takes their place only if it is encoded as the same
    /// bytes, because a number that was read as another type may be rounded.
    private static func decodedContent<Value: Codable & Sendable>(
        _ value: Value, from source: EncodedCell, _ key: KVKey<Value>
    ) -> EntryContent? {
        if InlineTypes.contain(Value.self), key.schema == nil, isEncoded(value, as: source.bytes) {
            return EntryContent(value, revision: source.revision, encodedSize: source.encodedSize)
        }
        return ValueSemantics.isCertain(of: value) ? EntryContent(TypedCell(value, from: source, key)) : nil
    }

    private static func isEncoded<Value: Codable & Sendable>(_ value: Value, as bytes: [UInt8]) -> Bool {
        do {
            return try coder.encode(value) == bytes
        } catch {
            return false
        }
    }
}

/// Which values may be overwritten: those that can be read as the type that is written in their place. All others are
/// set aside first, so that no value is lost because it is unreadable.
enum OverwritePolicy {
    /// The value in a key's place if it has to be looked at before it is overwritten.
    ///
    /// Two comparisons if the value was written or read as the key's type before.
    @inline(__always)
    static func unverified(in entry: KeyEntry?, _ type: CellType) -> ValueCell? {
        guard let entry, entry.kind != EntryContent.emptyKind else { return nil }
        let content = entry.content
        guard let cell = unsafe content.ownCell else { return type.isKind(content.kind) ? nil : content.asCell }
        return unsafe cell._withUnsafeGuaranteedRef { $0.type.isSame(as: type) } ? nil : content.asCell
    }

    /// Whether a value can be read as a key's type. Runs the code of that type: no lock may be held.
    @inline(never)
    static func isReadable<Value>(_ bytes: [UInt8], as key: KVKey<Value>) -> Bool {
        if let mayOverwrite = key.schema?.mayOverwrite { return mayOverwrite(bytes) }
        do {
            _ = try ValueTable.decode(bytes, as: key)
            return true
        } catch {
            return false  // A read of the value reports why.
        }
    }

    static func isReadable<Value>(_ cell: ValueCell, as key: KVKey<Value>) -> Bool { isReadable(cell.bytes, as: key) }
}

/// The type of a value in a batch, without the value.
struct WrittenType: Sendable {
    /// The type of a cell with such a value.
    let cellType: CellType

    private let type: any Written.Type
    private let schema: (any AnyObject & Sendable)?

    init<Value>(_ key: KVKey<Value>) {
        cellType = .encoded(key)
        type = WrittenAs<Value>.self
        schema = key.schema
    }

    /// Whether a value can be read as this type. Runs the code of the type: no lock may be held.
    func canRead(_ bytes: [UInt8], _ name: KeyName) -> Bool {
        type.canRead(bytes, name, schema)
    }
}

/// A type of values, so that it can be kept without a box.
private protocol Written: Sendable {
    static func canRead(_ bytes: [UInt8], _ name: KeyName, _ schema: AnyObject?) -> Bool
}

private enum WrittenAs<Value: Codable & Sendable>: Written {
    static func canRead(_ bytes: [UInt8], _ name: KeyName, _ schema: AnyObject?) -> Bool {
        let schema = schema.map { unsafe unsafeDowncast($0, to: KVSchema<Value>.self) }
        return OverwritePolicy.isReadable(bytes, as: KVKey(name, schema))
    }
}
