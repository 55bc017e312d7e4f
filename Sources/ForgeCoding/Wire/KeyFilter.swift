/// A 128-bit Bloom filter of the keys of a map.
struct KeyFilter {
    private var low: UInt64 = 0
    private var high: UInt64 = 0

    /// Adds the fingerprint of a key.
    ///
    /// - Returns: false if the key is certainly new.
    @inline(__always)
    mutating func insert(_ fingerprint: UInt64) -> Bool {
        let bit = UInt64(1) << (fingerprint & 63)
        if fingerprint & 64 == 0 {
            defer { low |= bit }
            return low & bit != 0
        }
        defer { high |= bit }
        return high & bit != 0
    }

    /// A seven-bit hash of a key's length, beginning and end.
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
