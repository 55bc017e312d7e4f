/// A key that is a path below the root of a store, validated so that it cannot lead outside.
///
/// Components are separated by single slashes. Two keys that differ in any byte are different keys, but they can be the
/// same file on a file system that folds case or normalises names.
public struct RelativeKey: Hashable, Sendable {
    /// The key as it was given.
    public let string: String

    /// The bytes of the key as a path relative to the root.
    package let path: POSIXPath

    /// Whether the key has several components.
    package var isNested: Bool { path.bytes.contains(UInt8(ascii: "/")) }

    /// The maximum length of a key, in bytes of UTF-8.
    public static let maximumLength = 1024

    /// The maximum length of a component, in bytes of UTF-8.
    public static let maximumComponentLength = 255

    /// The maximum number of components.
    public static let maximumDepth = 32

    /// Validates a key.
    ///
    /// - Throws: ``InvalidKey`` with the first violated rule; no system call was made.
    public init(_ string: String) throws(InvalidKey) {
        if let reason = Self.violation(in: string) { throw InvalidKey(key: string, reason: reason) }
        self.string = string
        self.path = POSIXPath(string)
    }

    /// Validates a key of a single component.
    package init(component string: String) throws(InvalidKey) {
        try self.init(string)
        guard !string.utf8.contains(UInt8(ascii: "/")) else {
            throw InvalidKey(key: string, reason: .severalComponents)
        }
    }

    private static func violation(in string: String) -> InvalidKey.Reason? {
        var string = string
        return string.withUTF8 { violation(inBytes: $0) }
    }

    private static func violation(inBytes bytes: UnsafeBufferPointer<UInt8>) -> InvalidKey.Reason? {
        if bytes.isEmpty { return .empty }
        if bytes.count > maximumLength { return .tooLong }
        var slashCount = 0
        for (index, byte) in bytes.enumerated() {
            switch byte {
            case 0: return .containsNUL
            case 0x01...0x1f, 0x7f: return .containsControlCharacter
            // U+0080 to U+009F
            case 0xc2 where (0x80...0x9f).contains(bytes[index + 1]): return .containsControlCharacter
            case UInt8(ascii: "\\"): return .containsBackslash
            case UInt8(ascii: "/"): slashCount += 1
            default: continue
            }
        }
        if bytes[0] == UInt8(ascii: "/") { return .absolute }
        if slashCount >= maximumDepth { return .tooDeep }
        var start = 0
        for end in 0...bytes.count where end == bytes.count || bytes[end] == UInt8(ascii: "/") {
            if let reason = violation(inComponent: UnsafeBufferPointer(rebasing: bytes[start..<end])) { return reason }
            start = end + 1
        }
        return nil
    }

    private static func violation(inComponent bytes: UnsafeBufferPointer<UInt8>) -> InvalidKey.Reason? {
        guard let first = bytes.first else { return .emptyComponent }
        if bytes.count > maximumComponentLength { return .componentTooLong }
        if bytes.count <= 2, bytes.allSatisfy({ $0 == UInt8(ascii: ".") }) { return .dotComponent }
        // A reserved name begins with `#`, which code points that HFS+ ignores may precede.
        guard first == UInt8(ascii: "#") || first >= 0x80 else { return nil }
        return POSIXPath(String(decoding: bytes, as: UTF8.self)).isReservedWhenFolded ? .reserved : nil
    }
}

/// A key that a store refuses: it could lead outside the store or collide with the store's internal names.
public struct InvalidKey: Error, Hashable, Sendable {
    /// The violated rule.
    public enum Reason: String, Hashable, Sendable, CaseIterable {
        case empty = "is empty"
        case tooLong = "is longer than 1,024 bytes"
        case containsNUL = "contains a NUL"
        case containsControlCharacter = "contains a control character"
        case containsBackslash = "contains a backslash"
        case absolute = "is an absolute path"
        case tooDeep = "has more than 32 components"
        case emptyComponent = "has an empty component"
        case componentTooLong = "has a component longer than 255 bytes"
        case dotComponent = "has a component . or .."
        case severalComponents = "has more than one component"
        case reserved = "has a component that is reserved (#tmp-, #trash-, #move-, #journal-, #lock, #…#)"
    }

    /// The key as it was given.
    public let key: String

    /// The violated rule.
    public let reason: Reason
}

extension InvalidKey: CustomStringConvertible {
    public var description: String { "the key \(POSIXPath(String(key.prefix(80)))) \(reason.rawValue)" }
}

extension POSIXPath {
    /// Whether this path, relative to the root of a store, is a valid key.
    package var isKey: Bool {
        guard let text = String(validating: self) else { return false }
        do {
            _ = try RelativeKey(text)
            return true
        } catch {
            return false
        }
    }
}
