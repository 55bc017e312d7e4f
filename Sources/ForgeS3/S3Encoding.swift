#if S3
/// Percent-encoding as S3 requires it.
///
/// Every byte is encoded but `A`–`Z`, `a`–`z`, `0`–`9`, `-`, `.`, `_` and `~`, with upper-case digits; a slash stays in
/// the path and is encoded elsewhere. Paths are encoded once, unlike those of other AWS services, and are not
/// normalised ("Create a signed AWS API request", AWS IAM User Guide).
package enum S3Encoding {
    package static func path(_ text: String) -> String { encode(text, keepingSlashes: true) }

    static func component(_ text: String) -> String { encode(text, keepingSlashes: false) }

    /// The text of a name in an answer with `encoding-type=url`, where a space is `+`; nil if it is not valid.
    static func decodingListed(_ text: String) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"): bytes.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                guard let digits = String(rest.prefix(2)), digits.utf8.count == 2, let value = UInt8(digits, radix: 16)
                else { return nil }
                rest = rest.dropFirst(2)
                bytes.append(value)
            default: bytes.append(byte)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }

    /// Bytes as lower-case hexadecimal digits.
    package static func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
        var digits: [UInt8] = []
        digits.reserveCapacity(2 * bytes.underestimatedCount)
        for byte in bytes {
            digits.append(Self.digits[Int(byte >> 4)])
            digits.append(Self.digits[Int(byte & 15)])
        }
        return String(decoding: digits, as: UTF8.self)
    }

    private static let digits = Array("0123456789abcdef".utf8)

    private static func encode(_ text: String, keepingSlashes: Bool) -> String {
        var encoded: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"):
                encoded.append(byte)
            case UInt8(ascii: "/") where keepingSlashes: encoded.append(byte)
            default: encoded += Array("%\(hexadecimal(CollectionOfOne(byte)).uppercased())".utf8)
            }
        }
        return String(decoding: encoded, as: UTF8.self)
    }
}
#endif
