import ForgeStorage
import ForgeStorageTesting
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
