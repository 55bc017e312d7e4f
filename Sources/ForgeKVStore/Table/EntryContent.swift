import ForgeCoding

/// What stands in an entry: nothing, a cell, or a value of a type that is kept in the entry itself.
struct EntryContent {
    /// Room for a value, or for the address of a cell.
    typealias Words = (UInt, UInt)

    /// ``nothing``, ``cell``, or the kind of the value's type among the ``InlineTypes``.
    var kind: UInt8
    var words: Words
    /// The number of the write that stored the value.
    var revision: UInt64
    var encodedSize: Int

    static let nothing: UInt8 = 0
    static let cell: UInt8 = 1

    /// No value.
    static let none = EntryContent(kind: nothing, words: (0, 0), revision: 0, encodedSize: 0)

    /// A cell, which is owned by whoever owns this.
    init(_ cell: consuming ValueCell) {
        revision = cell.revision
        encodedSize = cell.encodedSize
        kind = Self.cell
        words = (UInt(bitPattern: Unmanaged.passRetained(cell).toOpaque()), 0)
    }

    /// A value of one of the ``InlineTypes``, which is owned by whoever owns this.
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

    /// The cell that stands here, if it is one.
    @inline(__always)
    var ownCell: Unmanaged<ValueCell>? {
        guard kind == Self.cell, let address = UnsafeRawPointer(bitPattern: words.0) else { return nil }
        return Unmanaged.fromOpaque(address)
    }

    /// The value as a cell, made for the purpose where it stands in the entry itself; nil for nothing.
    var asCell: ValueCell? {
        kind == Self.nothing ? nil : ownCell?.takeUnretainedValue() ?? InlineTypes.cell(self)
    }
}

/// Types whose values are kept in an entry itself. They come back from encoding and decoding as they were, hold no object
/// that could be shared, and fit into two words.
enum InlineTypes {
    /// All of them, in the order of their kinds, the first of which is 2.
    static let all: [any (Codable & Sendable).Type] = [
        Int.self, String.self, Bool.self, Double.self, Float.self,
        Int64.self, Int32.self, Int16.self, Int8.self,
        UInt.self, UInt64.self, UInt32.self, UInt16.self, UInt8.self,
    ]

    private static let firstKind = EntryContent.cell + 1

    /// What is given for the kind of any other type.
    private static let noKind = UInt8.max

    @inline(__always)
    static func contain<Value>(_ type: Value.Type) -> Bool { kind(of: type) != noKind }

    /// The kind of a type, which is known when the code of a call with a common type is compiled.
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

    /// The words that a value is; they own what it owned.
    @inline(__always)
    static func words<Value>(_ value: Value) -> EntryContent.Words {
        precondition(MemoryLayout<Value>.size <= MemoryLayout<EntryContent.Words>.size)
        var words: EntryContent.Words = (0, 0)
        withUnsafeMutableBytes(of: &words) { _ = $0.baseAddress?.initializeMemory(as: Value.self, to: value) }
        return words
    }

    /// A copy of the value that words are.
    @inline(__always)
    static func value<Value>(_ words: EntryContent.Words, as type: Value.Type) -> Value {
        withUnsafeBytes(of: words) { $0.load(as: type) }
    }

    /// The encoded form of a value; the bytes are good until the encoder is used again.
    @inline(__always)
    static func encode<Value>(_ value: Value, by encoder: inout PlainEncoder) -> UnsafeRawBufferPointer {
        if Value.self == Int.self { return encoder.encode(Int64(unsafeBitCast(value, to: Int.self))) }
        if Value.self == String.self { return encoder.encode(unsafeBitCast(value, to: String.self)) }
        if Value.self == Bool.self { return encoder.encode(unsafeBitCast(value, to: Bool.self)) }
        if Value.self == Double.self { return encoder.encode(unsafeBitCast(value, to: Double.self)) }
        return encodeNumber(value, by: &encoder)
    }

    private static func encodeNumber(_ value: Any, by encoder: inout PlainEncoder) -> UnsafeRawBufferPointer {
        switch value {
        case let value as Float: encoder.encode(value)
        case let value as any FixedWidthInteger & SignedInteger: encoder.encode(Int64(value))
        case let value as any FixedWidthInteger & UnsignedInteger: encoder.encode(UInt64(value))
        default: preconditionFailure("no such type is kept in entries")
        }
    }

    /// The text that words are, taken from them; nil for what owns nothing.
    @inline(__always)
    static func text(_ content: EntryContent) -> String? {
        guard content.kind == kind(of: String.self) else { return nil }
        var words = content.words
        return withUnsafeMutableBytes(of: &words) { bytes in
            bytes.baseAddress?.assumingMemoryBound(to: String.self).move()
        }
    }

    /// A cell for a value that stands in an entry.
    static func cell(_ content: EntryContent) -> ValueCell {
        func encoded<Value: Codable & Sendable>(_ type: Value.Type) -> ValueCell {
            do {
                let bytes = try ValueTable.coder.encode(value(content.words, as: type))
                return EncodedCell(bytes, revision: content.revision, type: .encoded(type))
            } catch {
                // It was encoded once already, and there is nothing in such a value that could refuse.
                preconditionFailure("a value of type \(type) cannot be encoded twice")
            }
        }
        return encoded(type(content.kind))
    }
}
