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

    /// The low five bits of an indefinite length.
    static let indefinite: UInt8 = 31

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
