import ForgeStorage
import Testing

@Suite("A cache in memory")
struct MemoryCacheTests {
    @Test("keeps its limit in bytes on every insertion, and counts")
    func limits() {
        let cache = MemoryCache<String>(limits: CacheLimits(sizeInBytes: 30, count: 5)) { $0.utf8.count }
        for number in 0..<50 {
            cache.insert(String(repeating: "x", count: number % 12), for: "key \(number)")
            #expect(cache.statistics.sizeInBytes <= 30)
            #expect(cache.statistics.count <= 5)
            #expect(cache.value(for: "key \(number)") != nil)
        }
        #expect(cache.value(for: "other") == nil)
        let statistics = cache.statistics
        #expect(statistics.hitCount == 50 && statistics.missCount == 1)
        #expect(statistics.evictionCount == 50 - statistics.count)
    }

    @Test("keys are compared by their bytes")
    func keys() {
        let cache = MemoryCache<Int>(limits: .unlimited)
        cache.insert(1, for: "é")
        cache.insert(2, for: "e\u{301}")
        cache.insert(3, for: "")
        #expect(cache.value(for: "é") == 1)
        #expect(cache.value(for: "e\u{301}") == 2)
        #expect(cache.value(for: "") == 3)
        #expect(cache.remove("é") == 1)
        #expect(cache.value(for: "e\u{301}") == 2)
    }

    @Test("can be trimmed and emptied")
    func trimming() {
        let cache = MemoryCache<Int>(limits: .unlimited) { $0 }
        for number in 1...10 { cache.insert(number, for: "\(number)") }
        cache.trim(to: 20)
        #expect((1...20).contains(cache.statistics.sizeInBytes))
        cache.removeAll()
        #expect(cache.statistics.sizeInBytes == 0 && cache.statistics.count == 0)
    }

    @Test("a value's deinitializer may use the cache")
    func reentrancy() {
        final class Reentrant: Sendable {
            let cache: MemoryCache<Reentrant>
            init(_ cache: MemoryCache<Reentrant>) { self.cache = cache }
            deinit { _ = cache.value(for: "other") }
        }
        let cache = MemoryCache<Reentrant>(limits: CacheLimits(count: 2))
        for number in 0..<6 { cache.insert(Reentrant(cache), for: "\(number % 4)") }
        cache.remove("3")
        cache.trim(to: 0)
        cache.removeAll()
        #expect(cache.statistics.count == 0)
    }
}
