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
        isLeftover || isMovedFile || hasPrefix("#lock") || hasPrefix(Self.journalPrefix) || isEditorsName
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
        withUnsafeBytes { $0.count > 1 && $0.first == UInt8(ascii: "#") && $0.last == UInt8(ascii: "#") }
    }

    /// Whether the name has the form of a temporary file or deleted tree, of a store or of another program.
    package var isLeftover: Bool {
        hasPrefix(Self.temporaryPrefix) || hasPrefix(Self.trashPrefix)
    }

    /// Whether the name has the form of a file whose move into a store is incomplete.
    package var isMovedFile: Bool { hasPrefix(Self.movePrefix) }

    /// Whether a file with this name exists only in the root of a store.
    package var isStoreMarker: Bool {
        if self == Self.lockName || hasPrefix("#lock-") { return true }
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

    private func hasPrefix(_ prefix: String) -> Bool {
        withUnsafeBytes { $0.starts(with: prefix.utf8) }
    }
}

private func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
