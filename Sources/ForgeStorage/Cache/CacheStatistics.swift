/// Counts of the requests, loads and evictions of a ``BoundedCache`` since its creation.
public struct CacheStatistics: Hashable, Sendable {
    /// The layer in memory. Its hits include stale entries.
    public internal(set) var memory = MemoryCacheStatistics()

    /// The number of entries found on disk within their lifetime.
    public internal(set) var diskHitCount = 0

    /// The number of entries found on disk after their lifetime.
    public internal(set) var staleDiskHitCount = 0

    /// The number of requests that found no entry, neither in memory nor on disk.
    public internal(set) var missCount = 0

    /// The number of files that were evicted from disk.
    public internal(set) var diskEvictionCount = 0

    /// The number of loads that were started.
    public internal(set) var loadCount = 0

    /// The number of loads that threw.
    public internal(set) var failedLoadCount = 0

    /// The number of errors that ``CacheOptions/onError`` was called with.
    public internal(set) var errorCount = 0
}
