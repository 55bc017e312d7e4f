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
        string.withUTF8Span { violation(inBytes: $0) }
    }

    private static func violation(inBytes bytes: Span<UInt8>) -> InvalidKey.Reason? {
        if bytes.isEmpty { return .empty }
        if bytes.count > maximumLength { return .tooLong }
        var slashCount = 0
        for index in bytes.indices {
            switch bytes[index] {
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
            if let reason = violation(inComponent: bytes.extracting(start..<end)) { return reason }
            start = end + 1
        }
        return nil
    }

    private static func violation(inComponent bytes: Span<UInt8>) -> InvalidKey.Reason? {
        guard !bytes.isEmpty else { return .emptyComponent }
        let first = bytes[0]
        if bytes.count > maximumComponentLength { return .componentTooLong }
        if first == UInt8(ascii: "."), bytes.count == 1 || bytes.count == 2 && bytes[1] == first {
            return .dotComponent
        }
        // A reserved name begins with `#`, which code points that HFS+ ignores may precede.
        guard first == UInt8(ascii: "#") || first >= 0x80 else { return nil }
        return POSIXPath(bytes).isReservedWhenFolded ? .reserved : nil
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
        case reserved = "has a component that is reserved (#tmp-, #trash-, #move-, #journal-, #lock, #store-, #…#)"
    }

    /// The key as it was given.
    public let key: String

    /// The violated rule.
    public let reason: Reason
}

extension InvalidKey: CustomStringConvertible {
    public var description: String { "the key \(POSIXPath(String(key.prefix(80)))) \(reason.rawValue)" }

    /// Keys are compared by their bytes.
    public static func == (first: InvalidKey, second: InvalidKey) -> Bool {
        first.reason == second.reason && first.key.hasSameBytes(as: second.key)
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(reason)
        hasher.combine(POSIXPath(key))
    }
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

extension POSIXPath {
    /// The prefix of the names of all temporary files of stores; no key has it.
    package static let temporaryPrefix = "#tmp-"

    /// The prefix of the names of trees that are being deleted.
    package static let trashPrefix = "#trash-"

    /// The prefix of the name in a store's root of an external file while it is moved to its key; no store removes such
    /// a file.
    package static let movePrefix = "#move-"

    /// The prefix of the names of files that record a store's temporary names.
    package static let journalPrefix = "#journal-"

    /// The name of a store's lock file.
    package static let lockName: POSIXPath = "#lock"

    /// The length of the random part of a name from ``reserved(_:using:)``.
    static let randomPartLength = 16

    private static let alphabet = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)

    /// A name such as `#tmp-` followed by 16 base-32 characters of 80 random bits.
    package static func reserved(_ prefix: String, using random: () -> UInt64) -> POSIXPath {
        var name = Array(prefix.utf8)
        for _ in 0..<2 {
            var bits = random()
            for _ in 0..<8 {
                name.append(alphabet[Int(bits & 31)])
                bits >>= 5
            }
        }
        return POSIXPath(name)
    }

    /// Whether keys cannot have this name, because stores or editors use such names.
    package var isReservedName: Bool {
        isLeftover || isMovedFile || isMarkerOfKind || hasPrefix("#lock") || hasPrefix(Self.journalPrefix)
            || isEditorsName
    }

    /// Whether some file system could treat the name as one that stores reserve.
    ///
    /// Names are compared after case folding and without the code points that HFS+ ignores; otherwise `#LOCK` would be
    /// the lock file on a file system that folds case (the attack of CVE-2014-9390).
    package var isReservedWhenFolded: Bool {
        // Upper case first: the long s becomes S, and the Kelvin sign becomes k in the second step.
        POSIXPath(visibleText.uppercased().lowercased()).isReservedName
    }

    /// The name without the code points that HFS+ ignores.
    package var visibleText: String {
        var visible = String.UnicodeScalarView()
        visible.append(
            contentsOf: String(self).unicodeScalars.filter { !$0.properties.isDefaultIgnorableCodePoint })
        return String(visible)
    }

    /// Whether it is the name of an editor's autosave file: `#notes#`.
    private var isEditorsName: Bool {
        count > 1 && bytes.first == UInt8(ascii: "#") && bytes.last == UInt8(ascii: "#")
    }

    /// Whether the name has the form of a temporary file or deleted tree, of a store or of another program.
    package var isLeftover: Bool {
        hasPrefix(Self.temporaryPrefix) || hasPrefix(Self.trashPrefix)
    }

    /// Whether the name has the form of a file whose move into a store is incomplete.
    package var isMovedFile: Bool { hasPrefix(Self.movePrefix) }

    /// Whether the name has the form of a marker that tells the kind of a store.
    package var isMarkerOfKind: Bool { hasPrefix(StoreMarker.prefix) }

    /// Whether a file with this name exists only in the root of a store.
    package var isStoreMarker: Bool {
        // Almost no file has such a name; a directory may have many thousands.
        guard terminated.first == UInt8(ascii: "#") else { return false }
        if self == Self.lockName || hasPrefix("#lock-") || isMarkerOfKind { return true }
        guard hasPrefix(Self.journalPrefix) else { return false }
        let number = bytes.dropFirst(Self.journalPrefix.utf8.count)
        return !number.isEmpty && number.allSatisfy(isDigit)
    }

    /// Whether a file with this name belongs to a store itself: a marker, or a temporary file or tree that is recorded.
    package var isInternalToStore: Bool { isStoreMarker || recordedParts != nil }

    /// Whether this is a valid random part of a name.
    var isRandomPart: Bool {
        count == Self.randomPartLength && bytes.allSatisfy { Self.alphabet.contains($0) }
    }

    /// The random part of a temporary file's name of the form `#tmp-`, random part, hyphen, number.
    var temporaryID: POSIXPath? {
        hasPrefix(Self.temporaryPrefix) ? recordedParts?.id : nil
    }

    /// The part of the name of a temporary file or of trash that tells its owner; nil for any other name.
    package var ownerID: POSIXPath? { recordedParts?.id }

    /// The random part and the number of a name that ``TemporaryFileJournalFile`` records, of a file or of trash.
    var recordedParts: (id: POSIXPath, slot: Int)? {
        guard let prefix = [Self.temporaryPrefix, Self.trashPrefix].first(where: hasPrefix) else { return nil }
        let rest = bytes.dropFirst(prefix.utf8.count)
        let id = POSIXPath(rest.prefix(Self.randomPartLength))
        let number = rest.dropFirst(Self.randomPartLength)
        guard id.isRandomPart, let slot = Int(String(decoding: number.dropFirst(), as: UTF8.self)), slot >= 0,
            number.elementsEqual("-\(slot)".utf8)
        else { return nil }
        return (id, slot)
    }

    private func hasPrefix(_ prefix: String) -> Bool { bytes.starts(with: prefix.utf8) }
}

private func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
