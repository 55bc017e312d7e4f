public import Crypto
public import ForgeStorage

/// What an ``Inspector`` shows, and whether it may change it.
public struct InspectorOptions: Sendable {
    /// Whether values may be edited. Without it, every write is refused before any store is opened.
    public var isWritable = false

    /// The keys that unlocking tries on a vault. They never leave the process.
    public var vaultKeys: [SymmetricKey] = []

    /// The decoders that are asked, in order, for the text of a value.
    public var decoders: [InspectorDecoder] = []

    /// The caches of this process whose statistics are shown: a cache counts its hits in memory, so another process's
    /// are unknown.
    public var caches: [InspectedCache] = []

    /// Creates options with default values.
    public init() {}
}

/// A cache of this process.
public struct InspectedCache: Sendable {
    /// The name that the page shows.
    public var name: String

    /// The present statistics; called for every refresh of the page.
    public var statistics: @Sendable () -> CacheStatistics

    /// Creates the description of a cache.
    ///
    /// - Parameters:
    ///   - name: The name that the page shows.
    ///   - statistics: The present statistics, such as `BoundedCache.statistics`.
    public init(_ name: String, statistics: @escaping @Sendable () -> CacheStatistics) {
        self.name = name
        self.statistics = statistics
    }
}
