import ForgeCoding
import Synchronization

/// A value in a table, with the revision that brought it. It never changes: a new value is a new cell.
class ValueCell: @unchecked Sendable {
    // Invariant of the unchecked conformance: all that the subclasses hold is immutable and Sendable, or atomic.

    /// The number of the write that stored the value.
    let revision: UInt64

    /// How many bytes the encoded value has.
    let encodedSize: Int

    /// The type of the decoded value, looked at before a cell is taken for a `TypedCell`; of a cell without one the
    /// ``EncodedCell/Mark`` of the type whose encoding it is, if that is known.
    fileprivate let type: ObjectIdentifier?

    private let isReported = Atomic(false)

    fileprivate init(revision: UInt64, encodedSize: Int, type: ObjectIdentifier?) {
        self.revision = revision
        self.encodedSize = encodedSize
        self.type = type
    }

    /// The encoded value.
    var bytes: [UInt8] { [] }

    /// What is kept if the value is decoded anew, as another type.
    var encoded: EncodedCell? { nil }

    /// Whether it is told for the first time that the value is not of the type that was asked for.
    final func report() -> Bool { !isReported.exchange(true, ordering: .relaxed) }

    /// About how much memory a cell takes beside the encoded value.
    static let overhead = 96
}

/// A value as its bytes, not yet decoded.
final class EncodedCell: ValueCell, @unchecked Sendable {
    private let content: [UInt8]

    /// Stands for the type that a value had when it was encoded, where `Value` stands for one that is decoded.
    enum Mark<Value> {}

    init(_ bytes: [UInt8], revision: UInt64, writtenAs mark: ObjectIdentifier? = nil) {
        content = bytes
        super.init(revision: revision, encodedSize: bytes.count, type: mark)
    }

    /// What a cell is marked with that holds the encoding of a value of a type.
    @inline(__always)
    static func mark<Value>(of _: Value.Type) -> ObjectIdentifier { ObjectIdentifier(Mark<Value>.self) }

    /// The same for a version of a type: which it is stands in the envelope.
    static func versionedMark<Value: Codable & Sendable>(of _: Value.Type) -> ObjectIdentifier {
        ObjectIdentifier(Mark<KVSchema<Value>>.self)
    }

    override var bytes: [UInt8] { content }

    override var encoded: EncodedCell? { self }
}

/// A decoded value of one type.
class TypedCell<Value: Codable & Sendable>: ValueCell, @unchecked Sendable {
    fileprivate final let value: Value

    /// What it was decoded from; nil where encoding it gives the same bytes again.
    private final let source: EncodedCell?

    fileprivate init(
        _ value: Value, source: EncodedCell?, revision: UInt64, encodedSize: Int,
        type: ObjectIdentifier = ObjectIdentifier(Value.self)
    ) {
        self.value = value
        self.source = source
        super.init(revision: revision, encodedSize: encodedSize, type: type)
    }

    /// The cell for a value that was decoded.
    static func cell(_ value: Value, from source: EncodedCell, _ key: KVKey<Value>) -> TypedCell {
        guard let schema = key.schema else {
            return TypedCell(value, source: source, revision: source.revision, encodedSize: source.encodedSize)
        }
        return VersionedCell(value, from: source, version: schema.version)
    }

    /// A value of a type that comes back from decoding as it was.
    convenience init(exact value: Value, revision: UInt64, encodedSize: Int) {
        self.init(value, source: nil, revision: revision, encodedSize: encodedSize)
    }

    override final var bytes: [UInt8] {
        if let source { return source.bytes }
        do {
            return try ValueTable.coder.encode(value)
        } catch {
            // It was encoded once already, and there is nothing in such a value that could refuse.
            preconditionFailure("a value of type \(Value.self) cannot be encoded twice")
        }
    }

    override final var encoded: EncodedCell? { source }

    /// The value in `cell`, if it is one of exactly this type.
    @inline(__always)
    static func value(in cell: ValueCell, _ key: KVKey<Value>) -> Value? {
        if let schema = key.schema { return VersionedCell.value(in: cell, version: schema.version) }
        guard cell.type == ObjectIdentifier(Value.self) else { return nil }
        return unsafeDowncast(cell, to: TypedCell<Value>.self).value
    }

    /// Whether `cell` holds a value of the key's type beyond doubt: one that was decoded, or encoded, as that.
    @inline(__always)
    static func isSurely(_ cell: ValueCell, _ key: KVKey<Value>) -> Bool {
        if let schema = key.schema { return VersionedCell<Value>.isSurely(cell, version: schema.version) }
        return cell.type == ObjectIdentifier(Value.self) || cell.type == EncodedCell.mark(of: Value.self)
    }
}

/// A decoded value of one version of a type: what another version of the same type means may be something else.
private final class VersionedCell<Value: Codable & Sendable>: TypedCell<Value>, @unchecked Sendable {
    private let version: UInt32

    init(_ value: Value, from source: EncodedCell, version: UInt32) {
        self.version = version
        super.init(
            value, source: source, revision: source.revision, encodedSize: source.encodedSize,
            type: ObjectIdentifier(VersionedCell<Value>.self))
    }

    @inline(never)
    static func value(in cell: ValueCell, version: UInt32) -> Value? {
        guard cell.type == ObjectIdentifier(VersionedCell<Value>.self) else { return nil }
        let cell = unsafeDowncast(cell, to: VersionedCell<Value>.self)
        return cell.version == version ? cell.value : nil
    }

    @inline(never)
    static func isSurely(_ cell: ValueCell, version: UInt32) -> Bool {
        guard cell.type == EncodedCell.versionedMark(of: Value.self) else {
            return value(in: cell, version: version) != nil
        }
        do {
            return try ValueEnvelope(decoding: cell.bytes).schemaVersion == version
        } catch {
            return false
        }
    }
}

/// Types whose values come back from encoding and decoding as they were, and hold no object that could be shared.
enum ExactTypes {
    @inline(__always)
    static func contain<Value>(_ type: Value.Type) -> Bool {
        type == Int.self || type == String.self || type == Bool.self || type == Double.self || isNumber(type)
    }

    private static func isNumber(_ type: Any.Type) -> Bool {
        type == Float.self || type == UInt.self || type == Int64.self || type == Int32.self || type == Int16.self
            || type == Int8.self || type == UInt64.self || type == UInt32.self || type == UInt16.self
            || type == UInt8.self
    }
}
