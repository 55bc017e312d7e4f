/// Operations on keys, names and paths as the bytes that they are.
///
/// Swift compares and splits strings by `Character`, file systems and servers by bytes. A slash before U+0301 or behind
/// U+0600 is part of a larger `Character`, so `split` does not find it and `dropLast` removes its neighbour; "é" in two
/// normal forms is one `String` and two files.
extension StringProtocol {
    /// Whether the bytes of this text begin with those of another one.
    package func hasBytePrefix(_ prefix: some StringProtocol) -> Bool { utf8.starts(with: prefix.utf8) }

    /// Whether the bytes of this text end with those of another one.
    package func hasByteSuffix(_ suffix: some StringProtocol) -> Bool {
        utf8.count >= suffix.utf8.count && utf8.suffix(suffix.utf8.count).elementsEqual(suffix.utf8)
    }

    /// Whether both texts have the same bytes.
    package func hasSameBytes(as other: some StringProtocol) -> Bool { utf8.elementsEqual(other.utf8) }

    /// Whether the bytes of this text come before those of another one; the order of names everywhere.
    package func precedesInBytes(_ other: some StringProtocol) -> Bool { utf8.lexicographicallyPrecedes(other.utf8) }

    /// The text without the bytes of a prefix; nil if it does not begin with them.
    package func droppingBytePrefix(_ prefix: some StringProtocol) -> String? {
        guard hasBytePrefix(prefix) else { return nil }
        return String(decoding: utf8.dropFirst(prefix.utf8.count), as: UTF8.self)
    }

    /// The text without the bytes of a suffix; nil if it does not end with them.
    package func droppingByteSuffix(_ suffix: some StringProtocol) -> String? {
        guard hasByteSuffix(suffix) else { return nil }
        return String(decoding: utf8.dropLast(suffix.utf8.count), as: UTF8.self)
    }

    /// The text before and the text behind the first occurrence of a separator.
    ///
    /// - Parameter separator: ASCII characters, so that both parts are valid texts.
    /// - Returns: Nil if there is none.
    package func splitAtBytes(_ separator: StaticString) -> (before: String, after: String)? {
        let bytes = Array(utf8)
        let wanted = Array(separator.description.utf8)
        guard
            let start = bytes.indices.first(where: { bytes[$0...].starts(with: wanted) })
        else { return nil }
        return (
            String(decoding: bytes[..<start], as: UTF8.self),
            String(decoding: bytes[(start + wanted.count)...], as: UTF8.self)
        )
    }
}
