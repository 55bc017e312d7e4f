import Crypto
import ForgeFileSystem

/// A key encoded as a file name that is valid on every file system, and distinct for distinct keys.
///
/// The short form is the ``EscapedName`` of the key, which can be decoded.
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
        let short = EscapedName.escaping(Array(key.utf8))
        string =
            short.count <= Self.maximumShortLength
            ? String(decoding: short, as: UTF8.self) : Self.longForm(of: key, short: short)
    }

    private static func longForm(of key: String, short: [UInt8]) -> String {
        var kept = short.prefix(keptLength)
        if let start = kept.suffix(2).lastIndex(of: EscapedName.mark) { kept = kept[..<start] }
        var name = [mark]
        name.append(contentsOf: kept)
        name.append(mark)
        for byte in SHA256.hash(data: Array(key.utf8)) {
            EscapedName.appendHexDigits(of: byte, to: &name)
        }
        return String(decoding: name, as: UTF8.self)
    }
}

// MARK: Decoding

extension FlatFileName {
    /// The key of a name in the short form; nil for any other bytes.
    package static func key(of name: some Collection<UInt8>) -> String? {
        name.count <= maximumShortLength ? EscapedName.unescaping(Array(name)) : nil
    }

    /// Whether a file name is that of a key, followed by a suffix.
    package static func isName(_ name: POSIXPath, suffix: String) -> Bool {
        let bytes = name.bytes
        guard bytes.suffix(suffix.utf8.count).elementsEqual(suffix.utf8) else { return false }
        return isName(bytes.dropLast(suffix.utf8.count))
    }

    /// Whether bytes have the form of a key's name.
    package static func isName(_ name: some Collection<UInt8>) -> Bool {
        let bytes = Array(name)
        guard bytes.first == mark else { return key(of: bytes) != nil }
        let rest = bytes.dropFirst()
        let kept = rest.dropLast(65)
        let digest = rest.suffix(64)
        // A partial escape at the end is omitted, so up to two bytes may be missing.
        guard rest.count == kept.count + 65, (keptLength - 2...keptLength).contains(kept.count) else { return false }
        return rest[kept.endIndex] == mark && kept.allSatisfy { EscapedName.isPlain($0) || $0 == EscapedName.mark }
            && digest.allSatisfy { EscapedName.value(ofHexDigit: $0) != nil }
    }
}

private let mark = UInt8(ascii: "~")
