import ForgeFileSystem
import ForgeStorage
import Foundation
import Synchronization
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

@Suite("Caches when memory is scarce", .eachPlatform)
struct MemoryPressureTests {
    /// A source of warnings that a test gives.
    private final class Warnings: Sendable {
        private let handlers = Mutex<[ObjectIdentifier: @Sendable (MemoryPressure.Level) -> Void]>([:])

        /// Ends the calls of its handler with its release.
        private final class Registration {
            let warnings: Warnings
            init(_ warnings: Warnings) { self.warnings = warnings }
            deinit { warnings.remove(ObjectIdentifier(self)) }
        }

        var pressure: MemoryPressure {
            MemoryPressure { [self] handler in
                let registration = Registration(self)
                handlers.withLock { $0[ObjectIdentifier(registration)] = handler }
                return registration
            }
        }

        var count: Int { handlers.withLock { $0.count } }

        func warn(_ level: MemoryPressure.Level) {
            for handler in handlers.withLock({ Array($0.values) }) { handler(level) }
        }

        private func remove(_ id: ObjectIdentifier) {
            handlers.withLock { $0[id] = nil }
        }
    }

    private let warnings = Warnings()

    @Test("a warning halves a cache in memory, a critical one empties it", arguments: [0, 1])
    func memory(cost: Int) {
        let cache = MemoryCache<Int>(limits: .unlimited, memoryPressure: warnings.pressure) { _ in cost }
        for number in 0..<100 { cache.insert(number, for: "\(number)") }
        warnings.warn(.warning)
        #expect(cache.statistics.count == 50)
        warnings.warn(.critical)
        #expect(cache.statistics.count == 0)
        #expect(cache.statistics.evictionCount == 100)
    }

    @Test("a bounded cache keeps its entries on disk")
    func bounded() async throws {
        let fixture = CacheFixture { [pressure = warnings.pressure] in $0.memoryPressure = pressure }
        let cache = try fixture.open()
        await cache.insert(Data("1".utf8), for: "a")
        warnings.warn(.critical)
        #expect(cache.valueInMemory(for: "a") == nil)
        #expect(try await cache.value(for: "a") { Data("2".utf8) } == Data("1".utf8))
    }

    @Test("decoded images are evicted, their files stay")
    func images() throws {
        let cache = ImageCacheManager(
            fileSystem: EachPlatform.fileSystem(), cacheDirectory: URL(filePath: "/caches"),
            memoryPressure: warnings.pressure)
        try cache.cacheImage(id: "a", data: Data([20, 10, 3]))
        let decoder = ImageDecodingTests.Decoder()
        #expect(try cache.image(id: "a", decoder: decoder) != nil)
        warnings.warn(.critical)
        #expect(cache.decodedStatistics.count == 0)
        #expect(try cache.image(id: "a", decoder: decoder) != nil)
        #expect(decoder.count.value == 2)
    }

    @Test("a released cache gets no warnings")
    func release() {
        var cache: MemoryCache<Int>? = MemoryCache(limits: .unlimited, memoryPressure: warnings.pressure)
        #expect(warnings.count == 1)
        cache?.insert(1, for: "a")
        cache = nil
        #expect(warnings.count == 0)
        warnings.warn(.critical)
    }
}
