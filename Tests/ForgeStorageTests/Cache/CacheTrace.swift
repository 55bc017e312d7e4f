import ForgeStorageTesting
import Foundation
import Testing

/// Requests of keys, the same in every run.
struct CacheTrace: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let keys: [Int]

    /// The number of entries of the caches that replay the traces.
    static let capacity = 100

    /// Keys with a probability proportional to 1/rank.
    static func zipf(keyCount: Int = 10 * capacity, length: Int = 10_000, seed: UInt64) -> CacheTrace {
        var sums: [Double] = []
        for rank in 1...keyCount { sums.append((sums.last ?? 0) + 1 / Double(rank)) }
        var generator = SplitMix64(seed: seed)
        let keys = (0..<length).map { _ in
            let point = generator.nextFraction() * (sums.last ?? 0)
            var range = 0..<keyCount - 1
            while !range.isEmpty {
                let middle = (range.lowerBound + range.upperBound) / 2
                range = sums[middle] < point ? middle + 1..<range.upperBound : range.lowerBound..<middle
            }
            return range.lowerBound
        }
        return CacheTrace(testDescription: "Zipf, seed \(seed)", keys: keys)
    }

    /// Zipf, with passes over keys that are used once.
    static func scans(seed: UInt64) -> CacheTrace {
        var keys: [Int] = []
        for (place, key) in zipf(seed: seed).keys.enumerated() {
            keys.append(key)
            if place % 2000 == 0 { keys += (1 + place) * 10_000..<(1 + place) * 10_000 + 300 }
        }
        return CacheTrace(testDescription: "scans, seed \(seed)", keys: keys)
    }

    /// The same keys again and again.
    static func loop(_ keyCount: Int) -> CacheTrace {
        CacheTrace(testDescription: "loop of \(keyCount)", keys: (0..<5_000).map { $0 % keyCount })
    }

    /// Keys of a window that moves by one per `uses` requests.
    static func window(_ width: Int, uses: Int, seed: UInt64) -> CacheTrace {
        var generator = SplitMix64(seed: seed)
        let keys = (0..<8_000).map { $0 / uses + Int(generator.next() % UInt64(width)) }
        return CacheTrace(testDescription: "window of \(width), \(uses) uses, seed \(seed)", keys: keys)
    }

    /// Keys that are less likely the longer ago they were new, with a mean age.
    static func ages(mean: Double, uses: Int, seed: UInt64) -> CacheTrace {
        var generator = SplitMix64(seed: seed)
        let keys = (0..<8_000).map { $0 / uses + 10_000 - Int(-log(1 - generator.nextFraction()) * mean) }
        return CacheTrace(testDescription: "mean age \(mean), \(uses) uses, seed \(seed)", keys: keys)
    }

    /// The hit rate of a cache, in per cent.
    func hitRate(_ isHit: (Int) -> Bool) -> Double {
        100 * Double(keys.count { isHit($0) }) / Double(keys.count)
    }

    var leastRecentlyUsedRate: Double {
        var cache = LeastRecentlyUsed(capacity: Self.capacity)
        return hitRate { cache.isHit($0) }
    }
}

/// The reference: evicts the least recently used key.
struct LeastRecentlyUsed {
    let capacity: Int
    private var times: [Int: Int] = [:]
    /// The requests of the last `capacity` different keys, and older ones of the same keys, which are ignored.
    private var requests: [Int] = []
    private var oldest = 0

    init(capacity: Int) {
        self.capacity = capacity
    }

    mutating func isHit(_ key: Int) -> Bool {
        let isHit = times.updateValue(requests.count, forKey: key) != nil
        requests.append(key)
        while times.count > capacity {
            if times[requests[oldest]] == oldest { times[requests[oldest]] = nil }
            oldest += 1
        }
        return isHit
    }
}
