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
        utf8.suffix(suffix.utf8.count).elementsEqual(suffix.utf8)
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

/// Any text as a file name that is valid on every file system, and distinct for distinct texts.
///
/// A name keeps `a`–`z`, `0`–`9`, `-`, `_` and `.`. Any other byte of the text's UTF-8, a dot at either end, and the
/// first letter of a name that Windows reserves for devices become `=` and two lower-case hexadecimal digits; the empty
/// text is `=` alone. So names are lower-case ASCII, which no file system folds or normalises, are neither hidden nor a
/// dot component, and can be decoded to their texts.
package enum EscapedName {
    /// The bytes of the name of a text, which is given in UTF-8.
    ///
    /// - Complexity: O(bytes)
    package static func escaping(_ text: [UInt8]) -> [UInt8] {
        guard !text.isEmpty else { return [mark] }
        let isDevice = isDeviceName(text.prefix { $0 != dot })
        var name: [UInt8] = []
        name.reserveCapacity(text.count + 8)
        for (index, byte) in text.enumerated() {
            let isAtEnd = index == 0 || index == text.count - 1
            if isPlain(byte), !(byte == dot && isAtEnd), !(isDevice && index == 0) {
                name.append(byte)
            } else {
                name.append(mark)
                appendHexDigits(of: byte, to: &name)
            }
        }
        return name
    }

    /// The text of a name; nil for bytes that are not the name of any text.
    ///
    /// - Complexity: O(bytes)
    package static func unescaping(_ name: [UInt8]) -> String? {
        if name == [mark] { return "" }
        var text: [UInt8] = []
        var rest = name[...]
        while let byte = rest.popFirst() {
            guard byte == mark else {
                text.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(value(ofHexDigit:)),
                let low = rest.popFirst().flatMap(value(ofHexDigit:))
            else { return nil }
            text.append(high << 4 | low)
        }
        // A text has one name: any other spelling was not made by `escaping`.
        guard escaping(text) == name else { return nil }
        return String(validating: text, as: UTF8.self)
    }

    /// The byte that precedes the digits of an escaped byte.
    package static let mark = UInt8(ascii: "=")

    /// Whether a name may contain a byte, except for dots at its ends and the first letter of a device's name.
    package static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"),
            UInt8(ascii: "_"), dot:
            true
        default:
            false
        }
    }

    /// Appends the two lower-case digits of a byte.
    package static func appendHexDigits(of byte: UInt8, to name: inout [UInt8]) {
        name.append(hexDigit(byte >> 4))
        name.append(hexDigit(byte & 15))
    }

    private static func hexDigit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
    }

    /// The value of a lower-case digit; nil for any other byte.
    package static func value(ofHexDigit byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        default: nil
        }
    }

    private static let dot = UInt8(ascii: ".")

    /// Whether Windows reserves a lower-case name for a device, whatever follows its first dot. Upper-case letters are
    /// escaped in any case.
    private static func isDeviceName(_ stem: ArraySlice<UInt8>) -> Bool {
        switch stem.count {
        case 3:
            ["con", "prn", "aux", "nul"].contains { stem.elementsEqual($0.utf8) }
        case 4:
            ["com", "lpt"].contains { stem.dropLast().elementsEqual($0.utf8) }
                && (UInt8(ascii: "1")...UInt8(ascii: "9")).contains(stem[stem.endIndex - 1])
        default:
            false
        }
    }
}
