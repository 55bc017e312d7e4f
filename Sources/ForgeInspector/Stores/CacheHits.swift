import ForgeStorage

/// The statistics of a cache of this process.
struct CacheHits: Encodable, Sendable {
    /// A directory while it exists.
    struct Place: Hashable, Sendable {
        var device: UInt64
        var inode: UInt64

        init(_ status: FileStatus) { (device, inode) = (status.device, status.inode) }
    }

    var name: String
    var memoryHits: Int
    var memoryMisses: Int
    var diskHits: Int
    var staleDiskHits: Int
    var misses: Int
    var evictions: Int

    init(_ cache: InspectedCache) {
        let statistics = cache.statistics()
        name = cache.name
        (memoryHits, memoryMisses) = (statistics.memory.hitCount, statistics.memory.missCount)
        (diskHits, staleDiskHits) = (statistics.diskHitCount, statistics.staleDiskHitCount)
        misses = statistics.missCount
        evictions = statistics.diskEvictionCount + statistics.memory.evictionCount
    }
}
