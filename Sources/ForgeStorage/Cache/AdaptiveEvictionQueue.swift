/// An ``EvictionQueue`` that chooses its policy: the one that would have had more hits recently.
///
/// Both policies are tried on the hashes of a sample of the keys (as in Waldspurger et al., "Cache Modeling and
/// Optimization using Miniature Simulations", USENIX ATC 2017), so both see the same requests. Hits are noted and added
/// to the trial by the next insertion.
package struct AdaptiveEvictionQueue<Key: Hashable & Sendable, Payload: Sendable>: Sendable {
    package typealias Entry = EvictionQueue<Key, Payload>.Entry

    private var queue: EvictionQueue<Key, Payload>
    private var trial: EvictionTrial?
    /// Selects the hashes that the trial includes; a copy, so that a hit does not touch the trial.
    private var sampleMask: Int?
    private var notedHits: [Int] = []

    private static var maximumNotedHitCount: Int { 256 }

    package init(limits: CacheLimits) {
        queue = EvictionQueue(limits: limits)
    }

    package var limits: CacheLimits { queue.limits }
    package var count: Int { queue.count }
    package var sizeInBytes: Int { queue.sizeInBytes }
    package var keys: [Key] { queue.keys }
    package func contains(_ key: Key) -> Bool { queue.contains(key) }

    /// The payload of a key; does not count as a use.
    package func peek(_ key: Key) -> Payload? { queue.peek(key) }

    /// The payload of a key; counts as a use.
    package mutating func hit(_ key: Key) -> Payload? {
        guard let (payload, hash) = queue.hit(key) else { return nil }
        if let sampleMask, hash & sampleMask == 0, notedHits.count < Self.maximumNotedHitCount {
            notedHits.append(hash)
        }
        return payload
    }

    /// Inserts an entry, or replaces the one of its key, and returns the evicted ones; see ``EvictionQueue``.
    package mutating func insert(_ key: Key, _ payload: Payload, sizeInBytes size: Int) -> [Entry] {
        let evicted = queue.insert(key, payload, sizeInBytes: size)
        if trial != nil || !evicted.isEmpty { addToTrial(key.hashValue) }
        return evicted
    }

    @discardableResult
    package mutating func remove(_ key: Key) -> Entry? { queue.remove(key) }

    package mutating func removeAll() { self = AdaptiveEvictionQueue(limits: limits) }

    /// Evicts entries until these limits are kept, and returns them.
    package mutating func trim(to limits: CacheLimits) -> [Entry] { queue.trim(to: limits) }

    private mutating func addToTrial(_ hash: Int) {
        // A trial is of the size of the full cache; another one starts when that has changed much.
        if trial?.fits(count) != true {
            let new = EvictionTrial(entryCount: count)
            trial = new
            sampleMask = new.mask
        }
        for hit in notedHits { trial?.add(hit) }
        notedHits.removeAll(keepingCapacity: true)
        trial?.add(hash)
        if let policy = trial?.betterPolicy { queue.policy = policy }
    }
}

/// Both policies of an ``EvictionQueue`` on the same sample of keys.
private struct EvictionTrial: Sendable {
    /// The policy that had clearly more hits recently; nil if there is none.
    private(set) var betterPolicy: EvictionPolicy?

    private let entryCount: Int
    let mask: Int
    private var frequency: EvictionQueue<Int, Bool>
    private var recency: EvictionQueue<Int, Bool>
    /// The hits of `frequency` less those of `recency`; older ones count less.
    private var difference = 0.0
    private let period: Double

    private static let maximumSampleCount = 512

    init(entryCount: Int) {
        self.entryCount = max(entryCount, 1)
        let divisor = (self.entryCount / Self.maximumSampleCount + 1).nextPowerOfTwo
        mask = divisor - 1
        let limits = CacheLimits(count: max(1, self.entryCount / divisor))
        frequency = EvictionQueue(limits: limits, policy: .frequency)
        recency = EvictionQueue(limits: limits, policy: .recency)
        period = 8 * Double(max(limits.count, 16))
    }

    func fits(_ count: Int) -> Bool { count <= 2 * entryCount && count >= entryCount / 2 }

    mutating func add(_ hash: Int) {
        guard hash & mask == 0 else { return }
        let hits = (Self.isHit(hash, &frequency), Self.isHit(hash, &recency))
        difference = difference * (1 - 1 / period) + (hits.0 ? 1 : 0) - (hits.1 ? 1 : 0)
        if abs(difference) > period / 100 { betterPolicy = difference > 0 ? .frequency : .recency }
    }

    private static func isHit(_ hash: Int, _ queue: inout EvictionQueue<Int, Bool>) -> Bool {
        if queue.hit(hash) != nil { return true }
        _ = queue.insert(hash, true, sizeInBytes: 0)
        return false
    }
}

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
