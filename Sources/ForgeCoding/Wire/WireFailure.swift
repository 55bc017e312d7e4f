/// What is wrong with bytes, or does not fit into them, before the coding path is known.
enum WireFailure: Error {
    /// The bytes end inside an item.
    case truncated(offset: Int)

    /// A head that RFC 8949 reserves, or a break outside an indefinite-length item.
    case malformed(offset: Int)

    /// Text that is not UTF-8.
    case invalidText(offset: Int)

    /// The same key twice in one map.
    case duplicateKey(offset: Int)

    /// A map key that is not a definite-length text string.
    case unsupportedKey(offset: Int)

    /// Bytes after the end of the value.
    case trailing(offset: Int)

    /// More arrays, maps and tags within one another than allowed.
    case tooDeep

    /// A number outside the range of the requested type.
    case outOfRange(offset: Int)

    /// The content of a tag that is not what the tag promises.
    case invalidContent(offset: Int)

    /// Null where a value was asked for.
    case null

    /// No failure of the bytes: the type has no form of its own in the format, so it reads itself.
    case unknownType

    /// An item of another type than the one asked for.
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
        case .invalidContent(let offset): "the content at byte \(offset) is not what its type requires"
        case .null: "found null"
        case .unknownType: "the type reads itself"
        case .mismatch(let found): "found \(found)"
        }
    }
}
