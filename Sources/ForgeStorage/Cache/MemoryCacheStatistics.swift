/// Counts of the requests to a cache in memory since its creation, and its current size.
public struct MemoryCacheStatistics: Hashable, Sendable {
    /// The number of requests that found an entry.
    public internal(set) var hitCount = 0

    /// The number of requests that found none.
    public internal(set) var missCount = 0

    /// The number of entries that were evicted; those that were removed or replaced do not count.
    public internal(set) var evictionCount = 0

    /// The number of entries.
    public internal(set) var count = 0

    /// The sum of the entries' costs, in bytes.
    public internal(set) var sizeInBytes = 0
}
