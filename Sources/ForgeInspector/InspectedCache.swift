public import ForgeStorage
public import Foundation

/// A cache of this process, whose hit rates an ``Inspector`` shows.
///
/// A cache counts its hits in memory and writes the counts nowhere, so the hit rates of a cache are known only inside
/// the process that uses it. An app shows its own by registering its caches:
///
/// ```swift
/// import ForgeStorage
///
/// let directory = URL(fileURLWithPath: "my-app-data/pages")
/// let pages = try BoundedCache<Data>(directory: directory)
/// let inspector = try Inspector(URL(fileURLWithPath: "my-app-data"))
/// inspector.register(InspectedCache("pages", directory: directory) { pages.statistics })
/// ```
public struct InspectedCache: Sendable {
    /// The name that the page shows.
    public var name: String

    /// The directory of the cache, at whose entries the page shows the hit rates too; nil for a cache in memory.
    public var directory: URL?

    /// The present statistics; called for every refresh of the page.
    public var statistics: @Sendable () -> CacheStatistics

    /// Creates the description of a cache.
    ///
    /// - Parameters:
    ///   - name: The name that the page shows.
    ///   - directory: The directory of the cache; nil for a cache in memory.
    ///   - statistics: The present statistics, such as `BoundedCache.statistics`.
    public init(_ name: String, directory: URL? = nil, statistics: @escaping @Sendable () -> CacheStatistics) {
        (self.name, self.directory, self.statistics) = (name, directory, statistics)
    }
}
