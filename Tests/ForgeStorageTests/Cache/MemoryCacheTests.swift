import Dispatch
import ForgeFileSystem
import ForgeStorage
import ForgeStorageTesting
import Foundation
import Synchronization
import TestDepth
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

    @Test("a limit of zero keeps nothing, also no value of the size 0", arguments: [0, -1])
    func zero(_ limit: Int) async throws {
        var assigned = CacheLimits()
        assigned.sizeInBytes = limit
        for limits in [CacheLimits(sizeInBytes: limit), assigned, CacheLimits(count: limit)] {
            let cache = MemoryCache<Int>(limits: limits)
            for number in 0..<3 { cache.insert(number, for: "\(number)") }
            #expect(cache.statistics.count == 0 && cache.statistics.evictionCount == 3)
            #expect(cache.value(for: "2") == nil)
            var options = CacheOptions()
            options.memory = limits
            let bounded = try BoundedCache<Data>(directory: nil, options: options)
            await bounded.insert(Data(), for: "a")
            #expect(bounded.valueInMemory(for: "a") == nil)
        }
        let cache = MemoryCache<Int>(limits: CacheLimits(sizeInBytes: 1))
        for number in 0..<3 { cache.insert(number, for: "\(number)") }
        #expect(cache.statistics.count == 3)
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

@Suite("Loads and lifetimes of a cache", .eachPlatform, .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
struct CacheLoadTests {
    @Test("a lifetime ends at its millisecond")
    func milliseconds() async throws {
        let fixture = CacheFixture()
        let cache = try fixture.open()
        await cache.insert(Data("1".utf8), for: "a", expiresAfter: .milliseconds(1_500))
        fixture.advance(by: 1.25)
        #expect(cache.valueInMemory(for: "a") == Data("1".utf8))
        fixture.advance(by: 0.25)
        #expect(cache.valueInMemory(for: "a") == nil)
        // One that ends after the last time that can be stored has no end.
        fixture.advance(by: 1e20)
        await cache.insert(Data("2".utf8), for: "a", expiresAfter: .seconds(1))
        #expect(cache.valueInMemory(for: "a") == Data("2".utf8))
    }

    @Test("an entry that is read from disk while it is removed is not in memory afterwards", arguments: [true, false])
    func readDuringRemoval(purges: Bool) async throws {
        let fixture = CacheFixture()
        let reading = Mutex<BoundedCache<Data>?>(nil)
        let fileSystem = InterceptedFileSystem(fixture.fileSystem) { (call) throws(FileSystemError) in
            guard call.operation == .unlink, let cache = reading.withLock({ $0.take() }) else { return }
            let isRead = DispatchSemaphore(value: 0)
            Task {
                do {
                    let found = try await cache.value(for: "a") { Data("2".utf8) }
                    #expect(found == Data("1".utf8))
                } catch {
                    Issue.record(error)
                }
                isRead.signal()
            }
            isRead.wait()
        }
        let cache = try BoundedCache<Data>(directory: CacheFixture.directory, fileSystem: fileSystem)
        await cache.insert(Data("1".utf8), for: "a")
        reading.withLock { $0 = cache }
        if purges { try await cache.purge() } else { try await cache.remove("a") }
        #expect(reading.withLock { $0 == nil })
        #expect(cache.valueInMemory(for: "a") == nil)
        #expect(try fixture.files() == [:])
    }

    @Test("an entry on disk comes into memory, and a stale one answers while it is loaded", arguments: [true, false])
    func fromDisk(isOnDisk: Bool) async throws {
        let (old, new) = (Data("1".utf8), Data("2".utf8))
        try await withTemporaryDirectory { root in
            let time = Mutex(Date(timeIntervalSince1970: 1_000_000))
            let fileSystem: any POSIXFileSystem = isOnDisk ? SystemFileSystem() : EachPlatform.fileSystem()
            var options = CacheOptions()
            options.staleWhileLoading = .seconds(5)
            options.now = { time.withLock { $0 } }
            let cache = try BoundedCache<Data>(
                directory: root.appending(component: "cache"), options: options, fileSystem: fileSystem)
            for key in ["a", "b"] { await cache.insert(old, for: key, expiresAfter: .seconds(10)) }
            await cache.insert(old, for: "c")
            cache.trimMemory()
            #expect(try await cache.value(for: "c") { _ in .value(new) } == old)
            #expect(cache.valueInMemory(for: "c") == old)
            time.withLock { $0 += 14 }
            #expect(try await cache.value(for: "a") { _ in .value(new) } == old)
            while cache.valueInMemory(for: "a") != new { await Task.yield() }
            time.withLock { $0 += 1 }
            #expect(try await cache.value(for: "b") { _ in .value(new) } == new)
            let statistics = cache.statistics
            #expect(statistics.diskHitCount == 1 && statistics.staleDiskHitCount == 2)
            #expect(statistics.loadCount == 2 && statistics.missCount == 0 && statistics.errorCount == 0)
        }
    }

    @Test("a load that has answered with a stale entry goes on when a later caller that waits for it is cancelled")
    func heldLoad() async throws {
        let fixture = CacheFixture { $0.staleWhileLoading = .seconds(5) }
        try await fixture.open().insert(Data("1".utf8), for: "a", expiresAfter: .seconds(10))
        fixture.advance(by: 14)
        let cache = try fixture.open()
        let gate = Gate()
        let answer = try await cache.value(for: "a") { _ in
            await gate.wait()
            return .value(Data("2".utf8))
        }
        #expect(answer == Data("1".utf8))
        await gate.arrival()
        fixture.advance(by: 5)
        let waiting = Task { try await cache.value(for: "a") { Data("3".utf8) } }
        while cache.statistics.memory.hitCount == 0 { await Task.yield() }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        await gate.open()
        while cache.valueInMemory(for: "a") != Data("2".utf8) { await Task.yield() }
        #expect(cache.statistics.loadCount == 1)
    }

    @Test("a call whose task is cancelled already loads nothing, and no later call waits for it")
    func cancelledBefore() async throws {
        let cache = try CacheFixture().open()
        let cancelled = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await cache.value(for: "a") { Data("old".utf8) }
        }
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        #expect(cache.statistics.loadCount == 0)
        #expect(try await cache.value(for: "a") { Data("new".utf8) } == Data("new".utf8))
    }

    @Test("a value that an entry says is absent is loaded, and kept, for a caller that needs one")
    func absentEntry() async throws {
        let fixture = CacheFixture()
        let cache = try fixture.open()
        #expect(try await cache.value(for: "a") { _ in .absent(expiresAfter: .seconds(10)) } == nil)
        #expect(try await cache.value(for: "a") { Data("1".utf8) } == Data("1".utf8))
        #expect(try await fixture.open().value(for: "a") { Data("2".utf8) } == Data("1".utf8))
        #expect(fixture.errors.isEmpty)
    }

    @Test("a value that cannot be encoded, and whose old entry cannot be removed, is reported twice and is in memory")
    func unencodableOnReadOnlyDisk() async throws {
        let memory = EachPlatform.fileSystem()
        let errors = Mutex<[CacheError]>([])
        let encode: @Sendable (String) throws -> Data = { text in
            if text == "new" { throw LoadFailure() }
            return Data(text.utf8)
        }
        let coding = CacheCoding<String>(
            encode: encode, decode: { String(decoding: $0, as: UTF8.self) }, cost: { _ in 1 })
        var options = CacheOptions()
        options.onError = { error in errors.withLock { $0.append(error) } }
        let cache = try BoundedCache(
            directory: CacheFixture.directory, coding: coding, options: options, fileSystem: memory)
        await cache.insert("old", for: "a")
        try memory.setReadOnly(true)
        await cache.insert("new", for: "a")
        #expect(errors.withLock { $0.map(\.reason) } == [.encode, .write])
        #expect(cache.valueInMemory(for: "a") == "new")
    }
}

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
        #expect(queue.insert("c", true, sizeInBytes: 10).map(\.key) == ["b"])
        #expect(queue.contains("c"))
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
