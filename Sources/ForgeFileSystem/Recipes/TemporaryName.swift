extension POSIXPath {
    /// What the name of every temporary file of a store begins with; no key of a user's can.
    package static let temporaryPrefix = "#tmp-"

    /// What the name of a tree that is being deleted begins with.
    package static let trashPrefix = "#trash-"

    /// The name of the file that holds a store's lock.
    package static let lockName: POSIXPath = "#lock"

    /// A name such as `#tmp-` and 16 characters of base 32, made of 80 random bits.
    package static func reserved(_ prefix: String, using random: () -> UInt64) -> POSIXPath {
        let alphabet = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)
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

    /// Whether the name is one that stores keep for themselves.
    package var isReservedName: Bool {
        withUnsafeBytes { bytes in
            bytes.starts(with: Self.temporaryPrefix.utf8) || bytes.starts(with: Self.trashPrefix.utf8)
                || bytes.starts(with: "#lock".utf8)
        }
    }

    /// Whether the name is one of a temporary file or of a tree that is being deleted.
    package var isLeftover: Bool {
        withUnsafeBytes { bytes in
            bytes.starts(with: Self.temporaryPrefix.utf8) || bytes.starts(with: Self.trashPrefix.utf8)
        }
    }
}
