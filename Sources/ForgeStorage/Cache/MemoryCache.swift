import Foundation
import Synchronization

// Memory safety: The bytes of a key are compared and hashed in the closure that provides them; both keys have the
// same length there.

/// A cache in memory, with limits in bytes and entries that every insertion keeps.
///
/// Which entry is evicted depends on what had more hits recently: how often keys are used, or when they were used last.
/// So neither one pass over many keys nor a change of the keys that are used empties the cache of what is used next.
///
/// Keys are compared by their bytes. All calls are thread-safe; a call holds one lock for less than a microsecond,
/// except a ``trim(to:)`` or an insertion that evicts many entries.
public final class MemoryCache<Value: Sendable>: Sendable {
    @usableFromInline let entries: MemoryEntries
    private let cost: @Sendable (Value) -> Int

    /// Creates an empty cache.
    ///
    /// - Parameters:
    ///   - limits: The limits of the costs' sum and of the number of entries.
    ///   - memoryPressure: The source of warnings on which the cache evicts entries; the operating system by default.
    ///   - cost: The size of a value in bytes, as the cache counts it; 0 unless it is given. Called once per insertion.
    public init(
        limits: CacheLimits, memoryPressure: MemoryPressure = .system,
        cost: @escaping @Sendable (Value) -> Int = { _ in 0 }
    ) {
        entries = MemoryEntries(limits: limits, memoryPressure)
        self.cost = cost
    }

    /// The value of a key; nil if there is none.
    ///
    /// - Complexity: O(1) in the number of entries.
    @inlinable
    public func value(for key: String) -> Value? {
        (entries.hit(key) as? Box)?.value
    }

    /// Inserts a value, or replaces the one of the key, and evicts entries until the limits are kept. A value whose
    /// cost exceeds the limit is not kept, nor is the one that it replaces.
    public func insert(_ value: Value, for key: String) {
        withExtendedLifetime(entries.insert(Box(value), for: CacheKey(key), sizeInBytes: cost(value))) {}
    }

    /// Removes the value of a key; returns it.
    @discardableResult
    public func remove(_ key: String) -> Value? {
        (entries.remove(CacheKey(key)) as? Box)?.value
    }

    /// Removes all values.
    public func removeAll() { entries.removeAll() }

    /// Evicts entries until the sum of their costs is at most `sizeInBytes`; for example if memory is scarce.
    public func trim(to sizeInBytes: Int) { entries.trim(to: sizeInBytes) }

    /// The counts of hits, misses and evictions, and the current size.
    public var statistics: MemoryCacheStatistics { entries.statistics }

    @usableFromInline
    final class Box: Sendable {
        @usableFromInline let value: Value
        init(_ value: Value) { self.value = value }
    }
}

/// The entries of a cache in memory. Not generic, so that the compiler specialises it and every cache shares its code.
@usableFromInline
final class MemoryEntries: Sendable {
    @usableFromInline typealias Object = any AnyObject & Sendable

    private struct State: Sendable {
        var queue: AdaptiveEvictionQueue<CacheKey, Object>
        var statistics = MemoryCacheStatistics()
    }

    private let state: Mutex<State>
    /// Set at the end of `init`, because the handler captures `self`.
    private let observation = Mutex<MemoryPressure.Observation?>(nil)

    init(limits: CacheLimits, _ pressure: MemoryPressure) {
        state = Mutex(State(queue: AdaptiveEvictionQueue(limits: limits)))
        let observation = MemoryPressure.Observation(pressure) { [weak self] level in self?.relieve(level) }
        self.observation.withLock { $0 = observation }
    }

    @usableFromInline
    func hit(_ key: String) -> Object? { hit(CacheKey(key)) }

    func hit(_ key: CacheKey) -> Object? {
        state.withLock { state in
            let object = state.queue.hit(key)
            if object == nil { state.statistics.missCount &+= 1 } else { state.statistics.hitCount &+= 1 }
            return object
        }
    }

    /// An entry, without counting.
    func peek(_ key: CacheKey) -> Object? { state.withLock { $0.queue.peek(key) } }

    /// The objects that an insertion has removed. They are released with no lock held, because that may run code of the
    /// app.
    typealias Removed = (replaced: Object?, evicted: [AdaptiveEvictionQueue<CacheKey, Object>.Entry])

    func insert(_ object: Object, for key: CacheKey, sizeInBytes: Int) -> Removed {
        state.withLock { state in
            let old = state.queue.peek(key)
            let evicted = state.queue.insert(key, object, sizeInBytes: max(sizeInBytes, 0))
            state.statistics.evictionCount += evicted.count
            return (old, evicted)
        }
    }

    func remove(_ key: CacheKey) -> Object? {
        state.withLock { $0.queue.remove(key)?.payload }
    }

    func removeAll() {
        let old = state.withLock { state in
            let old = state.queue
            state.queue.removeAll()
            return old
        }
        withExtendedLifetime(old) {}
    }

    func trim(to sizeInBytes: Int) {
        trim { _ in CacheLimits(sizeInBytes: sizeInBytes) }
    }

    private func relieve(_ level: MemoryPressure.Level) {
        switch level {
        case .warning: trim { CacheLimits(sizeInBytes: $0.sizeInBytes / 2, count: ($0.count + 1) / 2) }
        case .critical: trim { _ in CacheLimits(sizeInBytes: 0, count: 0) }
        }
    }

    private func trim(to limits: (AdaptiveEvictionQueue<CacheKey, Object>) -> CacheLimits) {
        let evicted = state.withLock { state in
            let evicted = state.queue.trim(to: limits(state.queue))
            state.statistics.evictionCount += evicted.count
            return evicted
        }
        withExtendedLifetime(evicted) {}
    }

    var statistics: MemoryCacheStatistics {
        state.withLock { state in
            var statistics = state.statistics
            statistics.count = state.queue.count
            statistics.sizeInBytes = state.queue.sizeInBytes
            return statistics
        }
    }
}

/// The key of a cache entry, compared by its bytes: strings that are equal in Swift (canonical equivalence) may be
/// different keys.
struct CacheKey: Hashable, Sendable {
    let string: String

    init(_ string: String) {
        self.string = string
    }

    static func == (left: CacheKey, right: CacheKey) -> Bool {
        unsafe left.string.utf8.count == right.string.utf8.count
            && left.withBytes { left in
                unsafe right.withBytes { right in
                    guard let first = left.baseAddress, let second = right.baseAddress else { return true }
                    return unsafe memcmp(first, second, left.count) == 0
                }
            }
    }

    func hash(into hasher: inout Hasher) {
        unsafe withBytes { unsafe hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }

    private func withBytes<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        if let result = unsafe string.utf8.withContiguousStorageIfAvailable(body) { return result }
        var copy = string
        return copy.withUTF8(body)
    }
}
