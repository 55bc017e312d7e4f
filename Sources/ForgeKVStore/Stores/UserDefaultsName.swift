/// The names under which keys are stored in the user defaults.
///
/// A name of printable ASCII is stored unchanged, so that other code finds it. Foundation on Linux compares other names
/// by character and loses some, so every other name is stored as `#forge:` and its bytes, percent-encoded, and so is a
/// name that begins with `#forge:` or `#forge-set-aside:`, or is `#forge-readable`.
enum UserDefaultsName {
    private static let prefix = "#forge:"

    /// The prefix of the names of values that were set aside; a number, a colon and the name of the key follow.
    static let setAsidePrefix = "#forge-set-aside:"

    /// The name of a value that shows that the suite can be read; see ``UserDefaultsMarker``.
    static let sentinel = "#forge-readable"

    /// The name under which a key is stored.
    static func encoded(_ name: String) -> String {
        guard !isPlain(name) else { return name }
        var encoded = prefix
        for byte in name.utf8 {
            if isPrintable(byte), byte != UInt8(ascii: "%") {
                encoded.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                encoded += byte < 16 ? "%0" : "%"
                encoded += String(byte, radix: 16)
            }
        }
        return encoded
    }

    /// The key for a stored name, whichever program stored it.
    static func decoded(_ name: String) -> String {
        guard name.hasPrefix(prefix) else { return name }
        var bytes: [UInt8] = []
        var rest = name.dropFirst(prefix.count).utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) else { return name }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self) ?? name
    }

    /// Whether this is the name of a value that was set aside.
    static func isSetAside(_ name: String) -> Bool { name.hasPrefix(setAsidePrefix) }

    /// Whether this is the name of no key, but of a value that the store keeps for itself.
    static func isOwn(_ name: String) -> Bool { isSetAside(name) || name.utf8.elementsEqual(sentinel.utf8) }

    /// Whether a name is stored unchanged.
    static func isPlain(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.allSatisfy(isPrintable) && !name.hasPrefix(prefix) && !isOwn(name)
    }

    private static func isPrintable(_ byte: UInt8) -> Bool { (0x20...0x7E).contains(byte) }
}
