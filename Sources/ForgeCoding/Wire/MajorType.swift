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

    /// The low five bits that mean "until the break".
    static let indefinite: UInt8 = 31

    static func name(of first: UInt8) -> String {
        switch first & mask {
        case unsigned, negative: return "an integer"
        case bytes: return "a byte string"
        case text: return "a text"
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
enum Tag {
    /// Seconds since 1970-01-01T00:00:00Z (RFC 8949, section 3.4.2).
    static let epochDate: UInt64 = 1
    static let bignum: UInt64 = 2
    static let negativeBignum: UInt64 = 3
    /// An array of exponent and mantissa, base ten (RFC 8949, section 3.4.4).
    static let decimalFraction: UInt64 = 4
    static let uri: UInt64 = 32
    static let uuid: UInt64 = 37

    /// Seconds since 2001-01-01T00:00:00Z as a double: this format's own tag, named after the distance of the two epochs.
    static let referenceDate: UInt64 = 978_307_200
}
