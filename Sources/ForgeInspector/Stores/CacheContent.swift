public import ForgeStorage
public import Foundation
import SystemPackage

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

/// The entries of a cache on disk, the most recently modified first.
struct CacheContent: Encodable, Sendable {
    struct Entry: Encodable, Sendable {
        /// The key if the name of the file tells it, else that name, as a readable text.
        var name: String
        var size: Int64
        /// In seconds since 1970.
        var modified: Double
    }

    var count: Int
    var size: Int64
    var offset: Int
    var rows: [Entry]

    /// Lists the files of a cache; reads none of them.
    init(of store: FoundStore, in root: ConfinedDirectory, offset: Int, limit: Int) throws(FileSystemError) {
        let fileSystem = root.fileSystem
        let suffix = store.kind == .cache ? CacheDirectory.suffix : ImageFile.suffix
        var entries: [Entry] = []
        let descriptor = try root.open(store.path)
        defer { fileSystem.discard(descriptor) }
        for entry in try fileSystem.entries(of: descriptor)
        where entry.type == .regular && FlatFileName.isName(entry.name, suffix: suffix) {
            do throws(FileSystemError) {
                let status = try fileSystem.status(entry.name, at: descriptor, followsSymbolicLinks: false)
                let key = FlatFileName.key(of: entry.name.bytes.dropLast(suffix.utf8.count))
                entries.append(
                    Entry(
                        name: (key.map { POSIXPath($0) } ?? entry.name).description, size: status.sizeInBytes,
                        modified: status.modified.secondsSince1970))
            } catch  where error.errno == .noSuchFileOrDirectory {
                continue  // Evicted meanwhile.
            }
        }
        entries.sort { ($1.modified, $0.name) < ($0.modified, $1.name) }
        count = entries.count
        size = entries.reduce(0) { $0 + $1.size }
        self.offset = offset
        rows = Array(entries.dropFirst(offset).prefix(limit))
    }
}

extension FileTime {
    var secondsSince1970: Double { Double(seconds) + Double(nanoseconds) / 1e9 }
}

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
