import Crypto

/// A key encoded as a file name that is valid on every file system, and distinct for distinct keys.
///
/// The short form keeps `a`–`z`, `0`–`9`, `-`, `_` and `.`. Any other byte of the key's UTF-8, a dot at either end, and
/// the first letter of a name that Windows reserves for devices become `=` and two lower-case hexadecimal digits; the
/// empty key is `=` alone. So names are lower-case ASCII, which no file system folds or normalises, and can be decoded
/// to their keys.
///
/// A short form of more than 180 bytes is replaced by the long one: `~`, its first 100 bytes (without a partial
/// escape), `~` and the SHA-256 of the key in hexadecimal digits. It cannot be decoded.
package struct FlatFileName: Hashable, Sendable {
    /// The name, 1 to 180 bytes.
    package let string: String

    /// The maximum length of a name in the short form, in bytes.
    package static let maximumShortLength = 180

    private static let keptLength = 100

    /// The name of a key.
    package init(_ key: String) {
        let short = Self.shortForm(of: Array(key.utf8))
        string =
            short.count <= Self.maximumShortLength
            ? String(decoding: short, as: UTF8.self) : Self.longForm(of: key, short: short)
    }

    private static func shortForm(of key: [UInt8]) -> [UInt8] {
        guard !key.isEmpty else { return [escape] }
        let isDevice = isDeviceStem(key.prefix { $0 != dot })
        var name: [UInt8] = []
        name.reserveCapacity(key.count + 8)
        for (index, byte) in key.enumerated() {
            let isAtEnd = index == 0 || index == key.count - 1
            if isPlain(byte), !(byte == dot && isAtEnd), !(index == 0 && isDevice) {
                name.append(byte)
            } else {
                name.append(escape)
                appendHexDigits(of: byte, to: &name)
            }
        }
        return name
    }

    private static func longForm(of key: String, short: [UInt8]) -> String {
        var kept = short.prefix(keptLength)
        if let start = kept.suffix(2).lastIndex(of: escape) { kept = kept[..<start] }
        var name = [mark]
        name.append(contentsOf: kept)
        name.append(mark)
        for byte in SHA256.hash(data: Array(key.utf8)) { appendHexDigits(of: byte, to: &name) }
        return String(decoding: name, as: UTF8.self)
    }
}

// MARK: Decoding

extension FlatFileName {
    /// The key of a name in the short form; nil for any other string.
    package static func key(of name: some StringProtocol) -> String? {
        var rest = Array(name.utf8)[...]
        guard rest.count <= maximumShortLength, !rest.isEmpty else { return nil }
        if rest.elementsEqual([escape]) { return "" }
        var key: [UInt8] = []
        while let byte = rest.popFirst() {
            guard byte == escape else {
                key.append(byte)
                continue
            }
            guard let high = rest.popFirst(), let low = rest.popFirst(),
                let value = UInt8(String(decoding: [high, low], as: UTF8.self), radix: 16)
            else { return nil }
            key.append(value)
        }
        // Only one spelling is the name of a key; others are foreign.
        guard let decoded = String(validating: key, as: UTF8.self), FlatFileName(decoded).string == name else {
            return nil
        }
        return decoded
    }

    /// Whether `name` has the form of a key's name.
    package static func isName(_ name: some StringProtocol) -> Bool {
        let bytes = Array(name.utf8)
        guard bytes.first == mark else { return key(of: name) != nil }
        let rest = bytes.dropFirst()
        let kept = rest.dropLast(65)
        let digest = rest.suffix(64)
        // A partial escape at the end is omitted, so up to two bytes may be missing.
        guard rest.count == kept.count + 65, (keptLength - 2...keptLength).contains(kept.count) else { return false }
        return rest[kept.endIndex] == mark && kept.allSatisfy { isPlain($0) || $0 == escape }
            && digest.allSatisfy(isHexDigit)
    }
}

// MARK: Bytes

private let escape = UInt8(ascii: "=")
private let mark = UInt8(ascii: "~")
private let dot = UInt8(ascii: ".")

private func isPlain(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"),
        UInt8(ascii: "_"), dot:
        true
    default:
        false
    }
}

private func isHexDigit(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
}

private func appendHexDigits(of byte: UInt8, to name: inout [UInt8]) {
    let digits: StaticString = "0123456789abcdef"
    digits.withUTF8Buffer { digits in
        name.append(digits[Int(byte >> 4)])
        name.append(digits[Int(byte & 15)])
    }
}

/// Whether Windows reserves a lower-case stem for a device, regardless of what follows its first dot.
private func isDeviceStem(_ stem: ArraySlice<UInt8>) -> Bool {
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
