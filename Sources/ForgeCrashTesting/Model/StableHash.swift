import ForgeFileSystem

/// A 64-bit hash that is the same in every run and on every platform.
struct StableHash: Hashable, Sendable {
    private(set) var value: UInt64 = 0x9E37_79B9_7F4A_7C15

    mutating func mix(_ word: UInt64) {
        value = (value ^ word) &* 0xD6E8_FEB8_6659_FD93
        value ^= value &>> 32
        value = value &* 0xD6E8_FEB8_6659_FD93
        value ^= value &>> 29
    }

    mutating func mix(_ bytes: UnsafeRawBufferPointer) {
        let wordCount = bytes.count / 8
        bytes.withWords { words in
            var index = 0
            while index < wordCount {
                mix(UInt64(littleEndian: words[index]))
                index &+= 1
            }
        }
        var offset = 8 * wordCount
        var tail = UInt64(truncatingIfNeeded: bytes.count)
        while offset < bytes.count {
            tail = tail << 8 | UInt64(bytes[offset])
            offset += 1
        }
        mix(tail)
    }

    /// The hash of a few words.
    static func of(_ words: UInt64...) -> UInt64 {
        var hash = StableHash()
        for word in words { hash.mix(word) }
        return hash.value
    }

    /// The hash of bytes without trailing zeros, so that bytes beyond the end of a file do not count; 0 if there are
    /// only zeros.
    static func ofContent(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        var count = bytes.count
        while count % 8 != 0, bytes[count - 1] == 0 { count -= 1 }
        if count % 8 == 0 {
            count = bytes.withWords { words in
                var left = count / 8
                while left > 0, words[left &- 1] == 0 { left = left &- 1 }
                return 8 * left
            }
            while count > 0, bytes[count - 1] == 0 { count -= 1 }
        }
        guard count > 0 else { return 0 }
        var hash = StableHash()
        hash.mix(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        return hash.value
    }
}

extension ExtendedAttributes {
    /// A hash of all names and values that is the same in every run.
    var stableHash: UInt64 {
        var hash = StableHash()
        for name in names {
            name.withUnsafeBytes { hash.mix($0) }
            self[name]?.withUnsafeBytes { hash.mix($0) }
        }
        return hash.value
    }
}
