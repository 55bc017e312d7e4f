import ForgeCoding
import Synchronization

/// A value in a table, with the revision that brought it. It never changes: a new value is a new cell.
class ValueCell: @unchecked Sendable {
    // Invariant of the unchecked conformance: all that the subclasses hold is immutable and Sendable, or atomic.

    /// The number of the write that stored the value.
    let revision: UInt64

    /// How many bytes the encoded value has.
    let encodedSize: Int

    /// The type of the decoded value; nil where there is none. Looked at before a cell is taken for a `TypedCell`.
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

    init(_ bytes: [UInt8], revision: UInt64) {
        content = bytes
        super.init(revision: revision, encodedSize: bytes.count, type: nil)
    }

    override var bytes: [UInt8] { content }

    override var encoded: EncodedCell? { self }
}

/// A decoded value of one type.
final class TypedCell<Value: Codable & Sendable>: ValueCell, @unchecked Sendable {
    private let value: Value

    /// What it was decoded from; nil where encoding it gives the same bytes again.
    private let source: EncodedCell?

    private init(_ value: Value, source: EncodedCell?, revision: UInt64, encodedSize: Int) {
        self.value = value
        self.source = source
        super.init(revision: revision, encodedSize: encodedSize, type: ObjectIdentifier(Value.self))
    }

    /// A value that was decoded.
    convenience init(_ value: Value, from source: EncodedCell) {
        self.init(value, source: source, revision: source.revision, encodedSize: source.encodedSize)
    }

    /// A value of a type that comes back from decoding as it was.
    convenience init(exact value: Value, revision: UInt64, encodedSize: Int) {
        self.init(value, source: nil, revision: revision, encodedSize: encodedSize)
    }

    override var bytes: [UInt8] {
        if let source { return source.bytes }
        do {
            return try ValueTable.coder.encode(value)
        } catch {
            // It was encoded once already, and there is nothing in such a value that could refuse.
            preconditionFailure("a value of type \(Value.self) cannot be encoded twice")
        }
    }

    override var encoded: EncodedCell? { source }

    /// The value in `cell`, if it is one of exactly this type.
    @inline(__always)
    static func value(in cell: ValueCell) -> Value? {
        guard cell.type == ObjectIdentifier(Value.self) else { return nil }
        return unsafeDowncast(cell, to: TypedCell<Value>.self).value
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
