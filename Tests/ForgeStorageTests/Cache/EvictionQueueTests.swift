import ForgeStorage
import ForgeStorageTesting
import Foundation
import Testing

@Suite("The eviction of a cache")
struct EvictionQueueTests {
    private func rate(_ trace: CacheTrace) -> Double {
        var queue = AdaptiveEvictionQueue<Int, Bool>(limits: CacheLimits(count: CacheTrace.capacity))
        return trace.hitRate { key in
            if queue.hit(key) != nil { return true }
            _ = queue.insert(key, true, sizeInBytes: 1)
            return false
        }
    }

    @Test(
        "has a hit rate of seven points more than the least recently used, if some keys are used more than others",
        arguments: [CacheTrace.zipf(seed: 1), .zipf(seed: 2)])
    func frequency(_ trace: CacheTrace) {
        #expect(rate(trace) >= trace.leastRecentlyUsedRate + 7)
    }

    @Test(
        "is never three points worse than the least recently used",
        arguments: [
            CacheTrace.scans(seed: 3), .loop(2 * CacheTrace.capacity), .loop(90), .window(50, uses: 4, seed: 4),
            .window(90, uses: 10, seed: 5), .window(200, uses: 5, seed: 7), .ages(mean: 50, uses: 5, seed: 8),
        ])
    func recency(_ trace: CacheTrace) {
        #expect(rate(trace) >= trace.leastRecentlyUsedRate - 3)
    }

    @Test("keeps both limits after every call, and its totals agree with its entries", arguments: [1, 2] as [UInt64])
    func totals(seed: UInt64) {
        var generator = SplitMix64(seed: seed)
        let limits = CacheLimits(sizeInBytes: 1000, count: 40)
        var queue = AdaptiveEvictionQueue<Int, Bool>(limits: limits)
        var sizes: [Int: Int] = [:]
        for _ in 0..<2_000 {
            let key = Int(generator.next() % 100)
            switch generator.next() % 8 {
            case 0:
                #expect(queue.remove(key)?.sizeInBytes == sizes.removeValue(forKey: key))
            case 1...4:
                let size = Int(generator.next() % 100) * (generator.next() % 50 == 0 ? 20 : 1)
                sizes[key] = size
                for entry in queue.insert(key, true, sizeInBytes: size) {
                    #expect(sizes.removeValue(forKey: entry.key) == entry.sizeInBytes)
                }
            default:
                #expect((queue.hit(key) != nil) == (sizes[key] != nil))
            }
            guard queue.count == sizes.count, queue.sizeInBytes == sizes.values.reduce(0, +),
                queue.count <= limits.count, queue.sizeInBytes <= limits.sizeInBytes
            else {
                Issue.record("\(queue.count) entries, \(queue.sizeInBytes) bytes; expected \(sizes)")
                return
            }
        }
    }

    @Test("an entry that exceeds the limits alone is not kept, nor is the one that it replaces")
    func tooLarge() {
        var queue = AdaptiveEvictionQueue<String, Bool>(limits: CacheLimits(sizeInBytes: 10))
        #expect(queue.insert("a", true, sizeInBytes: 4).isEmpty)
        #expect(queue.insert("b", true, sizeInBytes: 4).isEmpty)
        #expect(queue.insert("a", true, sizeInBytes: 11).map(\.key) == ["a"])
        #expect(!queue.contains("a") && queue.contains("b"))
        #expect(queue.sizeInBytes == 4)
    }

    @Test("an entry of any size fits without limits")
    func unlimited() {
        var queue = AdaptiveEvictionQueue<Int, Bool>(limits: .unlimited)
        for key in 0..<100 { #expect(queue.insert(key, true, sizeInBytes: 1 << 40).isEmpty) }
        #expect(queue.count == 100)
    }
}

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
