/// Estimates how often keys were used that are not in a cache, in half a byte per counter and four counters per key
/// (count-min sketch; Cormode and Muthukrishnan, 2005).
struct FrequencySketch {
    static let maximum: UInt8 = 15

    private var words: [UInt64] = []

    /// The number of keys that the sketch is meant for.
    private(set) var capacity = 0

    /// Enlarges the sketch for a number of keys; that forgets all counts.
    mutating func reserve(_ count: Int) {
        guard count > capacity else { return }
        capacity = max(256, count.nextPowerOfTwo)
        words = Array(repeating: 0, count: capacity)
    }

    /// The smallest of the hash's counters.
    func estimate(_ hash: Int) -> UInt8 {
        guard !words.isEmpty else { return 0 }
        var least = Self.maximum
        forEachCounter(of: hash) { word, shift in least = min(least, UInt8(words[word] >> shift & 15)) }
        return least
    }

    /// Raises the hash's counters to at least `count`.
    mutating func raise(_ hash: Int, to count: UInt8) {
        guard !words.isEmpty else { return }
        let count = UInt64(min(count, Self.maximum))
        forEachCounter(of: hash) { word, shift in
            if words[word] >> shift & 15 < count {
                words[word] = words[word] & ~(15 << shift) | count << shift
            }
        }
    }

    /// Halves all counters.
    mutating func halve() {
        for word in words.indices { words[word] = words[word] >> 1 & 0x7777_7777_7777_7777 }
    }

    /// Four counters, in words and places that are independent of each other.
    private func forEachCounter(of hash: Int, _ body: (_ word: Int, _ shift: UInt64) -> Void) {
        var bits = UInt64(bitPattern: Int64(hash))
        for _ in 0..<4 {
            bits = (bits ^ bits >> 32) &* 0x9E37_79B9_7F4A_7C15
            body(Int(bits >> 16) & (words.count - 1), (bits >> 60) * 4)
        }
    }
}

extension Int {
    /// The least power of two that is not less.
    var nextPowerOfTwo: Int { self <= 1 ? 1 : 1 << (Int.bitWidth - (self - 1).leadingZeroBitCount) }
}
