import ForgeCoding

// Memory safety: The kind of a content says what its words are: a value of that type, the address of bytes in the
// arena, or that of a cell. Only the writer makes them, and readers copy them between two equal versions of the
// entry.

/// The content of an entry: nothing, a cell, an encoded value in the table's arena, or an inline value.
struct EntryContent {
    /// Room for a value of one of the ``InlineTypes`` on every platform, or for the address of a cell and the
    /// ``CellType/decodedTag`` of the value in it.
    typealias Words = (UInt64, UInt64)

    /// ``emptyKind``, ``cell``, ``encoded``, or the kind of the value's type among the ``InlineTypes``.
    var kind: UInt8
    var words: Words
    /// The sequence number of the write that stored the value.
    var revision: UInt64
    var encodedSize: Int

    static let emptyKind: UInt8 = 0
    static let cell: UInt8 = 1

    /// The kind of an encoded value in the arena; `words` are its address and capacity.
    static let encoded: UInt8 = 254

    /// No value.
    static let empty = EntryContent(kind: emptyKind, words: (0, 0), revision: 0, encodedSize: 0)

    /// A cell. The owner of this content owns the cell.
    init(_ cell: consuming ValueCell) {
        revision = cell.revision
        encodedSize = cell.encodedSize
        kind = Self.cell
        let tag = cell.type.decodedTag
        words = unsafe (UInt64(UInt(bitPattern: Unmanaged.passRetained(cell).toOpaque())), tag)
    }

    /// A value of one of the ``InlineTypes``. The owner of this content owns the value.
    @inline(__always)
    init<Value>(_ value: Value, revision: UInt64, encodedSize: Int) {
        kind = InlineTypes.kind(of: Value.self)
        words = InlineTypes.words(value)
        self.revision = revision
        self.encodedSize = encodedSize
    }

    init(kind: UInt8, words: Words, revision: UInt64, encodedSize: Int) {
        self.kind = kind
        self.words = words
        self.revision = revision
        self.encodedSize = encodedSize
    }

    /// The address of the cell whose words these are.
    @inline(__always)
    static func cellAddress(_ words: Words) -> UnsafeRawPointer {
        // Never zero where the kind is that of a cell.
        unsafe UnsafeRawPointer(bitPattern: UInt(truncatingIfNeeded: words.0)).unsafelyUnwrapped
    }

    /// The cell; nil for content of another kind.
    @inline(__always)
    var ownCell: Unmanaged<ValueCell>? { unsafe kind == Self.cell ? .fromOpaque(Self.cellAddress(words)) : nil }

    /// The value as a cell, a new one for an inline or encoded value; nil for no value. For the writer: under its lock
    /// nothing is retired, so a reference may be counted anywhere.
    var asCell: ValueCell? {
        switch kind {
        case Self.emptyKind: nil
        case Self.cell: unsafe ownCell?.takeUnretainedValue()
        case Self.encoded: copyOfEncodedValue
        default: InlineTypes.cell(self)
        }
    }
}

// MARK: Values as they were loaded

extension EntryContent {
    /// An encoded value in the table's arena.
    init(encoded address: UnsafeMutableRawPointer, count: Int, revision: UInt64) {
        self.init(
            kind: Self.encoded, words: (UInt64(UInt(bitPattern: address)), UInt64(count)), revision: revision,
            encodedSize: count)
    }

    /// The address of an encoded value in the arena.
    var encodedAddress: UnsafeMutableRawPointer? {
        unsafe UnsafeMutableRawPointer(bitPattern: UInt(truncatingIfNeeded: words.0))
    }

    /// A cell with a copy of an encoded value, for the writer and for readers inside a critical section. Nothing in the
    /// cell refers to the arena.
    @inline(never)
    var copyOfEncodedValue: EncodedCell {
        unsafe EncodedCell.copying(encodedBytes, revision: revision, type: .unknown)
    }

    /// An encoded value in the arena; valid while the arena keeps it.
    var encodedBytes: UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(start: encodedAddress, count: encodedSize)
    }

    /// The capacity of an encoded value in the arena.
    var encodedCapacity: Int { Int(words.1) }

    /// Another encoded value at the same address.
    func reusingPlace(count: Int, revision: UInt64) -> EntryContent {
        EntryContent(kind: kind, words: words, revision: revision, encodedSize: count)
    }
}

/// Types whose values are kept in an entry itself. They come back from encoding and decoding as they were, hold no
/// object that could be shared, and fit into two words.
enum InlineTypes {
    /// All of them, in the order of their kinds, the first of which is 2.
    static let all: [any (Codable & Sendable).Type] = [
        Int.self, String.self, Bool.self, Double.self, Float.self,
        Int64.self, Int32.self, Int16.self, Int8.self,
        UInt.self, UInt64.self, UInt32.self, UInt16.self, UInt8.self,
    ]

    private static let firstKind = EntryContent.cell + 1

    /// The kind of `String`, the only one of these types whose values hold references.
    static let textKind = firstKind + 1

    /// The kind of any other type.
    private static let noKind = UInt8.max

    @inline(__always)
    static func contain<Value>(_ type: Value.Type) -> Bool { kind(of: type) != noKind }

    /// The kind of a type, a constant in code that is compiled for one of the common types.
    @inline(__always)
    static func kind<Value>(of type: Value.Type) -> UInt8 {
        if type == Int.self { return 2 }
        if type == String.self { return 3 }
        if type == Bool.self { return 4 }
        if type == Double.self { return 5 }
        return kindOfNumber(type)
    }

    private static func kindOfNumber(_ type: Any.Type) -> UInt8 {
        if type == Float.self { return 6 }
        if type == Int64.self { return 7 }
        if type == Int32.self { return 8 }
        if type == Int16.self { return 9 }
        if type == Int8.self { return 10 }
        if type == UInt.self { return 11 }
        if type == UInt64.self { return 12 }
        if type == UInt32.self { return 13 }
        if type == UInt16.self { return 14 }
        return type == UInt8.self ? 15 : noKind
    }

    /// The type of a kind.
    static func type(_ kind: UInt8) -> any (Codable & Sendable).Type { all[Int(kind - firstKind)] }
}

// MARK: Values as words

/// Values and words are converted in memory that has no type, by raw loads and stores: reading memory of one type as
/// another through typed pointers is undefined, and release builds then take values from registers that hold none.
extension InlineTypes {
    /// The words of a value; they own what the value owned.
    @inline(__always)
    static func words<Value>(_ value: Value) -> EntryContent.Words {
        precondition(MemoryLayout<Value>.size <= MemoryLayout<EntryContent.Words>.size)
        return unsafe withWordMemory((0, 0)) { memory in
            _ = unsafe memory.baseAddress?.initializeMemory(as: Value.self, to: value)
            return unsafe (memory.load(as: UInt64.self), memory.load(fromByteOffset: 8, as: UInt64.self))
        }
    }

    /// A copy of the value in these words. For text, only the writer may call this; readers use ``ReadGuard``.
    @inline(__always)
    static func value<Value>(_ words: EntryContent.Words, as type: Value.Type) -> Value {
        unsafe withUnsafeBytes(of: words) { unsafe $0.load(as: type) }
    }

    /// The text that the words of a content own, taken from them; nil for a content that owns nothing, or a cell.
    @inline(__always)
    static func text(_ content: EntryContent) -> String? {
        guard content.kind == textKind else { return nil }
        return unsafe withWordMemory(content.words) { unsafe $0.bindMemory(to: String.self).moveElement(from: 0) }
    }

    @inline(__always)
    private static func withWordMemory<Result>(
        _ words: EntryContent.Words, _ body: (UnsafeMutableRawBufferPointer) -> Result
    ) -> Result {
        unsafe withUnsafeTemporaryAllocation(byteCount: 16, alignment: 8) { memory in
            unsafe memory.storeBytes(of: words.0, as: UInt64.self)
            unsafe memory.storeBytes(of: words.1, toByteOffset: 8, as: UInt64.self)
            return unsafe body(memory)
        }
    }
}

// MARK: Values as bytes

extension InlineTypes {
    /// The encoded form of a value; the bytes are valid until the encoder is used again.
    @inline(__always)
    static func encode<Value>(_ value: Value, by encoder: inout PlainEncoder) -> UnsafeRawBufferPointer {
        if Value.self == Int.self { return unsafe encoder.encode(Int64(unsafeBitCast(value, to: Int.self))) }
        if Value.self == String.self { return unsafe encoder.encode(unsafeBitCast(value, to: String.self)) }
        if Value.self == Bool.self { return unsafe encoder.encode(unsafeBitCast(value, to: Bool.self)) }
        if Value.self == Double.self { return unsafe encoder.encode(unsafeBitCast(value, to: Double.self)) }
        return unsafe encodeNumber(value, by: &encoder)
    }

    /// Whether a value is a text so long that a buffer kept for its encoded form would matter.
    @inline(__always)
    static func isLong<Value>(_ value: Value) -> Bool {
        unsafe Value.self == String.self && unsafeBitCast(value, to: String.self).utf8.count > 1 << 16
    }

    /// The same for the value of a content that is neither a cell nor encoded. For the writer.
    static func encode(_ content: EntryContent, by encoder: inout PlainEncoder) -> UnsafeRawBufferPointer {
        switch content.kind {
        case kind(of: Int.self): return unsafe encode(value(content.words, as: Int.self), by: &encoder)
        case textKind: return unsafe encode(value(content.words, as: String.self), by: &encoder)
        default:
            func encoded<Value>(_ type: Value.Type) -> UnsafeRawBufferPointer {
                unsafe encode(value(content.words, as: type), by: &encoder)
            }
            return unsafe encoded(type(content.kind))
        }
    }

    private static func encodeNumber(_ value: Any, by encoder: inout PlainEncoder) -> UnsafeRawBufferPointer {
        switch value {
        case let value as Float: unsafe encoder.encode(value)
        case let value as any FixedWidthInteger & SignedInteger: unsafe encoder.encode(Int64(value))
        case let value as any FixedWidthInteger & UnsignedInteger: unsafe encoder.encode(UInt64(value))
        default: preconditionFailure("no such type is kept in entries")
        }
    }

    /// A cell with the encoded form of a value that an entry holds.
    static func cell<Value: Codable & Sendable>(_ value: Value, revision: UInt64) -> EncodedCell {
        do {
            return EncodedCell(try ValueTable.coder.encode(value), revision: revision, type: .encoded(Value.self))
        } catch {
            // It was encoded when it was stored, and no value of such a type can refuse.
            preconditionFailure("a value of type \(Value.self) cannot be encoded twice")
        }
    }

    /// The same for a content that is neither a cell nor, unless the caller is the writer, a text.
    static func cell(_ content: EntryContent) -> EncodedCell {
        func encoded<Value: Codable & Sendable>(_ type: Value.Type) -> EncodedCell {
            cell(value(content.words, as: type), revision: content.revision)
        }
        return encoded(type(content.kind))
    }
}
