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

    /// No value: the map has no such key, or the array no further element.
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
        case .invalidContent(let offset): "the content at byte \(offset) is not what its type requires"
        case .null: "found null"
        case .missing: "no value"
        case .unknownType: "the type reads itself"
        case .mismatch(let found): "found \(found)"
        }
    }
}
