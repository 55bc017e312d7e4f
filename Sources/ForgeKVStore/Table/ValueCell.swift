import ForgeCoding

/// A value in a table, with the revision that brought it. It never changes: a new value is a new cell.
class ValueCell: @unchecked Sendable {
    // Invariant of the unchecked conformance: all that the subclasses hold is immutable and Sendable.

    /// The number of the write that stored the value.
    let revision: UInt64

    /// How many bytes the encoded value has.
    let encodedSize: Int

    fileprivate let type: CellType

    fileprivate init(revision: UInt64, encodedSize: Int, type: CellType) {
        self.revision = revision
        self.encodedSize = encodedSize
        self.type = type
    }

    /// The encoded value.
    var bytes: [UInt8] { [] }

    /// About how much memory a cell takes beside the encoded value.
    static let overhead = 96
}

/// What is known of the type of a value in a cell: looked at before a cell is taken for a ``TypedCell``.
struct CellType: Sendable, Equatable {
    private enum Form: Sendable {
        /// Bytes of which nothing is known.
        case bytes
        /// The encoding of a value of the type, or of one of its versions, which stands in the envelope.
        case encoded, encodedVersion
        /// A decoded value of the type, or of one of its versions, which stands in the cell.
        case decoded, decodedVersion
    }

    private let identity: ObjectIdentifier?
    private let form: Form

    /// Bytes from elsewhere.
    static let unknown = CellType(identity: nil, form: .bytes)

    private init(identity: ObjectIdentifier?, form: Form) {
        self.identity = identity
        self.form = form
    }

    /// The type of the encoding of a value.
    @inline(__always)
    static func encoded(_ type: Any.Type, isVersioned: Bool) -> CellType {
        CellType(identity: ObjectIdentifier(type), form: isVersioned ? .encodedVersion : .encoded)
    }

    /// The type of a decoded value.
    @inline(__always)
    static func decoded(_ type: Any.Type, isVersioned: Bool) -> CellType {
        CellType(identity: ObjectIdentifier(type), form: isVersioned ? .decodedVersion : .decoded)
    }
}

/// A value as its bytes, not yet decoded.
final class EncodedCell: ValueCell, @unchecked Sendable {
    private let content: [UInt8]

    init(_ bytes: [UInt8], revision: UInt64, type: CellType = .unknown) {
        content = bytes
        super.init(revision: revision, encodedSize: bytes.count, type: type)
    }

    override var bytes: [UInt8] { content }
}

/// A decoded value of one type.
class TypedCell<Value: Codable & Sendable>: ValueCell, @unchecked Sendable {
    private final let value: Value

    /// What it was decoded from.
    private final let source: EncodedCell

    fileprivate init(_ value: Value, source: EncodedCell, isVersioned: Bool = false) {
        self.value = value
        self.source = source
        super.init(
            revision: source.revision, encodedSize: source.encodedSize,
            type: .decoded(Value.self, isVersioned: isVersioned))
    }

    /// The cell for a value that was decoded.
    static func cell(_ value: Value, from source: EncodedCell, _ key: KVKey<Value>) -> TypedCell {
        guard let schema = key.schema else { return TypedCell(value, source: source) }
        return VersionedCell(value, from: source, version: schema.version)
    }

    override final var bytes: [UInt8] { source.bytes }

    /// Whether `cell` holds a decoded value of exactly the key's type and version.
    @inline(__always)
    static func isDecoded(_ cell: ValueCell, _ key: KVKey<Value>) -> Bool {
        if let schema = key.schema { return VersionedCell<Value>.isDecoded(cell, version: schema.version) }
        return cell.type == .decoded(Value.self, isVersioned: false)
    }

    /// The value in a cell that is decoded.
    @inline(__always)
    static func value(in cell: ValueCell) -> Value { unsafeDowncast(cell, to: TypedCell<Value>.self).value }

    /// Whether `cell` holds a value of the key's type beyond doubt: one that was decoded, or encoded, as that.
    @inline(__always)
    static func isSurely(_ cell: ValueCell, _ key: KVKey<Value>) -> Bool {
        if let schema = key.schema { return VersionedCell<Value>.isSurely(cell, version: schema.version) }
        return cell.type == .encoded(Value.self, isVersioned: false)
            || cell.type == .decoded(Value.self, isVersioned: false)
    }
}

/// A decoded value of one version of a type: what another version of the same type means may be something else.
private final class VersionedCell<Value: Codable & Sendable>: TypedCell<Value>, @unchecked Sendable {
    private let version: UInt32

    init(_ value: Value, from source: EncodedCell, version: UInt32) {
        self.version = version
        super.init(value, source: source, isVersioned: true)
    }

    @inline(never)
    static func isDecoded(_ cell: ValueCell, version: UInt32) -> Bool {
        cell.type == .decoded(Value.self, isVersioned: true)
            && unsafeDowncast(cell, to: VersionedCell<Value>.self).version == version
    }

    @inline(never)
    static func isSurely(_ cell: ValueCell, version: UInt32) -> Bool {
        guard cell.type == .encoded(Value.self, isVersioned: true) else {
            return isDecoded(cell, version: version)
        }
        do {
            return try ValueEnvelope(decoding: cell.bytes).schemaVersion == version
        } catch {
            return false
        }
    }
}
