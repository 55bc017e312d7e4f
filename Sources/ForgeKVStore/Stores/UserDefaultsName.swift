import ForgeFileSystem
import Foundation

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
        guard let encoded = name.droppingBytePrefix(prefix) else { return name }
        var bytes: [UInt8] = []
        var rest = encoded.utf8[...]
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
    static func isSetAside(_ name: String) -> Bool { name.hasBytePrefix(setAsidePrefix) }

    /// Whether this is the name of no key, but of a value that the store keeps for itself.
    static func isOwn(_ name: String) -> Bool { isSetAside(name) || name.utf8.elementsEqual(sentinel.utf8) }

    /// Whether a name is stored unchanged.
    static func isPlain(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.allSatisfy(isPrintable) && !name.hasBytePrefix(prefix) && !isOwn(name)
    }

    private static func isPrintable(_ byte: UInt8) -> Bool { (0x20...0x7E).contains(byte) }
}

extension UserDefaultsKVStore {
    /// The values that could not be decoded as the type that replaced them and are still in the suite, in order of
    /// replacement under each name. A value that no type can be decoded from has no bytes.
    ///
    /// - Throws: ``KVStoreError``.
    public func setAside() throws -> [(name: String, bytes: [UInt8])] {
        try using(.keys, nil) { (defaults) throws(KVStoreError) in
            (defaults.persistentDomain(forName: domain) ?? [:])
                .compactMap { name, object in SetAsideName(name).map { ($0, object) } }
                .sorted { ($0.0.key, $0.0.number) < ($1.0.key, $1.0.number) }
                .map { (UserDefaultsName.decoded($0.0.key), PropertyListValue.bytes(of: $0.1) ?? []) }
        }
    }

    /// The name to set an object aside under; nil if it is set aside already, or is not in this suite and therefore
    /// kept.
    func setAsideName(of object: Any?, _ key: String, in defaults: UserDefaults) -> String? {
        let content = defaults.persistentDomain(forName: domain) ?? [:]
        guard let object, content[key] != nil else { return nil }
        var last = 0
        for (name, other) in content {
            guard let name = SetAsideName(name), name.key == key else { continue }
            if let bytes = PropertyListValue.bytes(of: other), bytes == PropertyListValue.bytes(of: object) {
                return nil
            }
            last = max(last, name.number)
        }
        return SetAsideName(key: key, number: last + 1).text
    }
}

/// The name of a value that was set aside: `#forge-set-aside:2:name`.
private struct SetAsideName {
    /// The key as it is stored in the suite.
    let key: String
    let number: Int

    init(key: String, number: Int) {
        self.key = key
        self.number = number
    }

    init?(_ text: String) {
        guard let (digits, key) = text.droppingBytePrefix(UserDefaultsName.setAsidePrefix)?.splitAtBytes(":"),
            let number = Int(digits)
        else { return nil }
        self.init(key: key, number: number)
    }

    var text: String { "\(UserDefaultsName.setAsidePrefix)\(number):\(key)" }
}
