import Synchronization

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
        entries.insert(Box(value), for: CacheKey(key), sizeInBytes: cost(value))
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
