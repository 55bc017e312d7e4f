/// Remembers which keys a map has, so that a key that is written twice is noticed.
///
/// Up to ``limit`` keys are two words of bits that only say "new" or "perhaps known": the common case costs no memory.
struct KeyTracker {
    static let limit = 24

    private var low: UInt64 = 0
    private var high: UInt64 = 0
    private var hashes: Set<Int>?

    /// Whether there are so many keys that ``widen(_:)`` should have been called.
    func needsWidening(count: Int) -> Bool { count >= Self.limit && hashes == nil }

    /// Exchanges the bits for a set, which needs the hash of every key so far.
    mutating func widen(_ known: Set<Int>) { hashes = known }

    /// Adds a key.
    ///
    /// - Returns: false if the key is certainly new.
    @inline(__always)
    mutating func insert(_ key: UnsafeBufferPointer<UInt8>) -> Bool {
        if hashes != nil { return insertWide(key) }
        let print = Self.fingerprint(key)
        let bit = UInt64(1) << (print & 63)
        if print & 64 == 0 {
            defer { low |= bit }
            return low & bit != 0
        }
        defer { high |= bit }
        return high & bit != 0
    }

    private mutating func insertWide(_ key: UnsafeBufferPointer<UInt8>) -> Bool {
        hashes?.insert(Self.hash(key)).inserted == false
    }

    /// A seeded hash, so that nobody can prepare keys that collide.
    static func hash(_ key: UnsafeBufferPointer<UInt8>) -> Int {
        var hasher = Hasher()
        hasher.combine(bytes: UnsafeRawBufferPointer(key))
        return hasher.finalize()
    }

    /// Seven bits of a key's length, beginning and end.
    @inline(__always)
    static func fingerprint(_ key: UnsafeBufferPointer<UInt8>) -> UInt64 {
        guard let start = UnsafeRawBufferPointer(key).baseAddress else { return 0 }
        let first: UInt64
        let last: UInt64
        switch key.count {
        case 8...:
            first = start.loadUnaligned(as: UInt64.self)
            last = start.loadUnaligned(fromByteOffset: key.count - 8, as: UInt64.self)
        case 4...:
            first = UInt64(start.loadUnaligned(as: UInt32.self))
            last = UInt64(start.loadUnaligned(fromByteOffset: key.count - 4, as: UInt32.self))
        case 1...:
            first = UInt64(key[0])
            last = UInt64(key[key.count - 1]) << 8 | UInt64(key[key.count / 2])
        default: return 0
        }
        let mixed = (first ^ (last &* 0x9E37_79B9_7F4A_7C15) ^ UInt64(key.count)) &* 0xD6E8_FEB8_6659_FD93
        return mixed >> 57
    }
}
