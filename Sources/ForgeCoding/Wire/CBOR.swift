/// The three high bits of an item's first byte (RFC 8949, section 3).
enum MajorType {
    static let unsigned: UInt8 = 0 << 5
    static let negative: UInt8 = 1 << 5
    static let bytes: UInt8 = 2 << 5
    static let text: UInt8 = 3 << 5
    static let array: UInt8 = 4 << 5
    static let map: UInt8 = 5 << 5
    static let tag: UInt8 = 6 << 5
    static let simple: UInt8 = 7 << 5
    static let mask: UInt8 = 7 << 5

    /// The low five bits of the first byte of an item of indefinite length.
    static let indefinite: UInt8 = 31

    /// The type of an item by its first byte, for error messages.
    static func name(of first: UInt8) -> String {
        switch first & mask {
        case unsigned, negative: return "an integer"
        case bytes: return "a byte string"
        case text: return "a text string"
        case array: return "an array"
        case map: return "a map"
        case tag: return "a tagged value"
        default:
            switch first {
            case Simple.false, Simple.true: return "a Boolean"
            case Simple.half, Simple.float, Simple.double: return "a floating-point number"
            default: return "a simple value"
            }
        }
    }
}

/// The first bytes of items of major type 7.
enum Simple {
    static let `false`: UInt8 = 0xF4
    static let `true`: UInt8 = 0xF5
    static let null: UInt8 = 0xF6
    static let undefined: UInt8 = 0xF7
    static let extended: UInt8 = 0xF8
    static let half: UInt8 = 0xF9
    static let float: UInt8 = 0xFA
    static let double: UInt8 = 0xFB
    static let `break`: UInt8 = 0xFF
}

/// The tags that the binary format writes.
///
/// The type of a value depends on them: the bytes of a bignum are not `Data`, and the array of a decimal is not
/// `[Int]`. A reader reads the content of such a tag only as a type that the tag stands for, and ignores all tags that
/// are not listed here.
enum Tag {
    /// Seconds since 1970-01-01T00:00:00Z (RFC 8949, section 3.4.2).
    static let epochDate: UInt64 = 1
    static let bignum: UInt64 = 2
    static let negativeBignum: UInt64 = 3
    /// An array of exponent and mantissa, base ten (RFC 8949, section 3.4.4).
    static let decimalFraction: UInt64 = 4
    static let uri: UInt64 = 32
    static let uuid: UInt64 = 37

    /// Seconds since 2001-01-01T00:00:00Z as a double. A private tag, numbered after the distance between the two
    /// epochs.
    static let referenceDate: UInt64 = 978_307_200

    /// The kind of value that a tag of the format stands for; nil for any other tag.
    static func name(of tag: UInt64) -> String? {
        switch tag {
        case epochDate, referenceDate: "a date"
        case bignum, negativeBignum: "an integer of more than 64 bits"
        case decimalFraction: "a decimal number"
        case uri: "a URL"
        case uuid: "a UUID"
        default: nil
        }
    }
}

/// A UTF-8 validator for bytes.
enum UTF8Check {
    static func isValid(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Bool {
        var offset = range.lowerBound
        while offset < range.upperBound {
            if range.upperBound &- offset >= 8, bytes.load(offset, as: UInt64.self) & 0x8080_8080_8080_8080 == 0 {
                offset &+= 8
                continue
            }
            let length = sequenceLength(bytes, offset, range.upperBound)
            guard length > 0 else { return false }
            offset &+= length
        }
        return true
    }

    /// The length of the sequence at an offset (Unicode, table 3-7); 0 if it is ill-formed.
    private static func sequenceLength(_ bytes: Span<UInt8>, _ offset: Int, _ end: Int) -> Int {
        let length: Int
        var second: ClosedRange<UInt8> = 0x80...0xBF
        switch bytes[offset] {
        case 0x00...0x7F: return 1
        case 0xC2...0xDF: length = 2
        case 0xE0: (length, second) = (3, 0xA0...0xBF)
        case 0xED: (length, second) = (3, 0x80...0x9F)
        case 0xE1...0xEF: length = 3
        case 0xF0: (length, second) = (4, 0x90...0xBF)
        case 0xF1...0xF3: length = 4
        case 0xF4: (length, second) = (4, 0x80...0x8F)
        default: return 0
        }
        guard end - offset >= length, second.contains(bytes[offset + 1]) else { return 0 }
        for index in 2..<max(length, 2) where bytes[offset + index] & 0xC0 != 0x80 { return 0 }
        return length
    }
}

/// A failure to read or write an item, before its coding path is known.
enum WireFailure: Error {
    /// The bytes end inside an item.
    case truncated(offset: Int)

    /// A reserved head, or a break outside an indefinite-length item.
    case malformed(offset: Int)

    /// Invalid UTF-8.
    case invalidText(offset: Int)

    /// A duplicate key in a map.
    case duplicateKey(offset: Int)

    /// A map key that is not a definite-length text string.
    case unsupportedKey(offset: Int)

    /// Bytes after the end of the value.
    case trailing(offset: Int)

    /// Arrays, maps and tags nest deeper than the limit.
    case tooDeep

    /// A number outside the range of the requested type.
    case outOfRange(offset: Int)

    /// The content of a tag does not match the tag.
    case invalidContent(offset: Int)

    /// Null instead of a value.
    case null

    /// No value: the map does not contain the key, or the array has no further element.
    case missing

    /// Not an error: the type has no encoding of its own, so it decodes itself.
    case unknownType

    /// An item of another type than requested.
    case mismatch(found: String)

    var reason: String {
        switch self {
        case .truncated(let offset): "the bytes end inside the item at byte \(offset)"
        case .malformed(let offset): "no well-formed item at byte \(offset)"
        case .invalidText(let offset): "the text at byte \(offset) is not UTF-8"
        case .duplicateKey(let offset): "the key at byte \(offset) occurs twice in its map"
        case .unsupportedKey(let offset): "the map key at byte \(offset) is not a definite-length text"
        case .trailing(let offset): "the value ends at byte \(offset), but the bytes do not"
        case .tooDeep: "nested deeper than the maximum depth"
        case .outOfRange(let offset): "the number at byte \(offset) does not fit into the type"
        case .invalidContent(let offset): "the content at byte \(offset) does not match its tag"
        case .null: "found null"
        case .missing: "no value"
        case .unknownType: "the type decodes itself"
        case .mismatch(let found): "found \(found)"
        }
    }
}

/// The step from a container to a value in it; converted to a coding key only when an error path is built.
enum PathStep {
    /// The value shares the path of its parent.
    case none
    case key(any CodingKey)
    case index(Int)

    var codingKey: (any CodingKey)? {
        switch self {
        case .none: nil
        case .key(let key): key
        case .index(let index): IndexKey(index)
        }
    }
}

/// The coding key of an element of an unkeyed container.
struct IndexKey: CodingKey {
    let index: Int

    init(_ index: Int) { self.index = index }
    init?(intValue: Int) { index = intValue }
    init?(stringValue: String) { nil }

    var intValue: Int? { index }
    var stringValue: String { "Index \(index)" }
}

/// The coding key of a superclass's container.
struct SuperKey: CodingKey {
    init() {}
    init?(intValue: Int) { nil }
    init?(stringValue: String) { nil }

    var intValue: Int? { nil }
    var stringValue: String { "super" }
}
