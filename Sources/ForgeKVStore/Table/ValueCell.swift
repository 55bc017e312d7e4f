import ForgeCoding

/// A value in a table, with the revision that brought it. It never changes: a new value is a new cell.
class ValueCell: @unchecked Sendable {
    // Invariant of the unchecked conformance: all that the subclasses hold is immutable and Sendable.

    /// The number of the write that stored the value.
    let revision: UInt64

    /// How many bytes the encoded value has.
    let encodedSize: Int

    /// Its type, as far as it is known.
    let type: CellType

    fileprivate init(revision: UInt64, encodedSize: Int, type: CellType) {
        self.revision = revision
        self.encodedSize = encodedSize
        self.type = type
    }

    /// The encoded value.
    var bytes: [UInt8] { [] }

    /// Initializes memory with a copy of the decoded value.
    func copyValue(to memory: UnsafeMutableRawPointer) {
        preconditionFailure("the value is not decoded")
    }

    /// About how much memory a cell takes beside the encoded value.
    static let overhead = 96
}

/// A value as its bytes, not yet decoded.
class EncodedCell: ValueCell, @unchecked Sendable {
    private final let content: [UInt8]

    init(_ bytes: [UInt8], revision: UInt64, type: CellType = .unknown) {
        content = bytes
        super.init(revision: revision, encodedSize: bytes.count, type: type)
    }

    fileprivate init(size: Int, revision: UInt64, type: CellType) {
        content = []
        super.init(revision: revision, encodedSize: size, type: type)
    }

    /// A cell with a copy of bytes.
    static func copying(_ bytes: UnsafeRawBufferPointer, revision: UInt64, type: CellType) -> EncodedCell {
        bytes.count <= ShortEncodedCell.capacity
            ? ShortEncodedCell(bytes, revision: revision, type: type)
            : EncodedCell(Array(bytes), revision: revision, type: type)
    }

    override var bytes: [UInt8] { content }
}

/// Few bytes, in the cell itself.
private final class ShortEncodedCell: EncodedCell, @unchecked Sendable {
    private typealias Content = (
        UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64
    )

    static let capacity = MemoryLayout<Content>.size

    private let content: Content

    /// - Precondition: There are no more bytes than the ``capacity``.
    init(_ bytes: UnsafeRawBufferPointer, revision: UInt64, type: CellType) {
        var content: Content = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        withUnsafeMutableBytes(of: &content) { $0.copyMemory(from: bytes) }
        self.content = content
        super.init(size: bytes.count, revision: revision, type: type)
    }

    override var bytes: [UInt8] { withUnsafeBytes(of: content) { Array($0.prefix(encodedSize)) } }
}

/// A decoded value of one type.
final class TypedCell<Value: Codable & Sendable>: ValueCell, @unchecked Sendable {
    private let value: Value

    /// The cell from which it was decoded.
    private let source: EncodedCell

    init(_ value: Value, from source: EncodedCell, _ key: KVKey<Value>) {
        self.value = value
        self.source = source
        super.init(revision: source.revision, encodedSize: source.encodedSize, type: .decoded(key))
    }

    override var bytes: [UInt8] { source.bytes }

    override func copyValue(to memory: UnsafeMutableRawPointer) {
        memory.assumingMemoryBound(to: Value.self).initialize(to: value)
    }
}
