public import ForgeFileSystem
public import Foundation
import Synchronization

/// A cache in memory in front of one on disk, both with limits.
///
/// `value(for:load:)` looks in memory, then on disk, and loads the value if neither has it.
/// However many callers ask for a key at the same time, it is read, decoded and loaded once. A call that is cancelled
/// while it waits ends at once; the load is cancelled when no caller waits for it any more.
///
/// Errors of the disk or of the coding do not make a call fail: the value is loaded, or kept in memory only, and
/// ``CacheOptions/onError`` is called. Only ``remove(_:)``, ``purge()`` and ``sizeOnDisk()`` throw them.
///
/// Several caches, also of several processes, can use a directory: they share the entries, and each keeps its limits of
/// those that it knows. The directory is listed by the first insertion or query of the size.
///
/// No asynchronous call waits for the disk on the caller's thread. `value` reads there what the system has in memory, up
/// to 256 KiB, and calls ``CacheCoding``'s decoder for it; larger and other files are read and decoded on another thread.
///
/// Keys are any strings, compared by their bytes. All calls are thread-safe.
public final class BoundedCache<Value: Sendable>: Sendable {
    let memory: MemoryEntries
    let disk: CacheDirectory?
    let coding: CacheCoding<Value>
    let options: CacheOptions
    let flights = SingleFlight<CacheEntry<Value>>()
    let counts = Mutex(CacheStatistics())

    /// Creates a cache; a directory is created by the first insertion.
    ///
    /// - Parameters:
    ///   - directory: The directory, a file URL; nil for a cache in memory only.
    ///   - coding: The form of the values on disk.
    ///   - options: Limits, lifetimes and the handler of errors.
    ///   - fileSystem: The file system of the directory; the system's own by default.
    /// - Throws: `FileSystemError` if the URL is not that of a file.
    public init(
        directory: URL?, coding: CacheCoding<Value>, options: CacheOptions = CacheOptions(),
        fileSystem: any POSIXFileSystem = SystemFileSystem()
    ) throws {
        memory = MemoryEntries(limits: options.memory, options.memoryPressure)
        disk = try directory.map {
            CacheDirectory(try POSIXPath($0), on: fileSystem, limits: options.disk, durability: options.durability)
        }
        self.coding = coding
        self.options = options
    }

    /// The value of a key: from memory, from disk, or else from `load`; nil if there is none.
    ///
    /// - Parameters:
    ///   - key: Any string.
    ///   - load: Loads the value in a task of its own. It gets the entry whose lifetime has ended, if there is one.
    /// - Returns: The value; nil if `load` has answered, now or before, that there is none.
    /// - Throws: The error of `load`, unless a stale value can be returned; `CancellationError` if this task is
    ///   cancelled and has to wait, for the disk or for `load`; ``CacheError`` if `load` answers
    ///   ``CacheLoad/notModified(expiresAfter:)`` without a stale entry.
    nonisolated(nonsending) public func value(
        for key: String, load: @escaping @Sendable (StaleCacheEntry<Value>?) async throws -> CacheLoad<Value>
    ) async throws -> Value? {
        let key = CacheKey(key)
        if let entry = memory.hit(key) as? CacheEntry<Value>,
            entry.expiry == nil || entry.staleness(at: options.now) == nil
        {
            return entry.value
        }
        return try await find(key, load).value
    }

    /// The value of a key: from memory, from disk, or else from `load`. It has no end of its lifetime.
    ///
    /// - Throws: The error of `load`; `CancellationError` if this task is cancelled and has to wait, for the disk or for
    ///   `load`.
    nonisolated(nonsending) public func value(
        for key: String, load: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        while true {
            let value = try await value(for: key) { (_: StaleCacheEntry<Value>?) in .value(try await load()) }
            if let value { return value }
            // The entry says that there is no value, which this caller does not accept.
            do {
                try await remove(key)
            } catch {
                report(.write, CacheKey(key), error)
                return try await load()
            }
        }
    }

    /// The value of a key if it is in memory within its lifetime; neither waits nor reads the disk.
    public func valueInMemory(for key: String) -> Value? {
        guard let entry = memory.hit(CacheKey(key)) as? CacheEntry<Value> else { return nil }
        return entry.staleness(at: options.now) == nil ? entry.value : nil
    }

    /// Inserts a value, or replaces the one of the key; a load that is under way does not replace it.
    ///
    /// - Parameters:
    ///   - value: The value.
    ///   - key: Any string.
    ///   - lifetime: The time after which the value is stale; nil for no end.
    ///   - tag: A tag that a later load gets together with the stale value.
    public func insert(
        _ value: Value, for key: String, expiresAfter lifetime: Duration? = nil, tag: String? = nil
    ) async {
        let key = CacheKey(key)
        flights.invalidate(key)
        let entry = CacheEntry(value: value, tag: tag, expiry: options.now().expiry(after: lifetime))
        await store(entry, key, isWanted: { true }) { [flights] insert in
            flights.invalidate(key)
            insert()
        }
    }

    /// Removes the entry of a key. A load that is under way answers its callers, but its value is not kept.
    ///
    /// - Throws: `FileSystemError`; the entry may still be on disk.
    public func remove(_ key: String) async throws {
        let key = CacheKey(key)
        // Again afterwards: a call may have read the file meanwhile.
        defer { forget(key) }
        forget(key)
        guard let disk else { return }
        try await disk.lane.run { () throws(any Error) in try disk.remove(key.string) }
    }

    /// Removes all entries, those of other processes in the directory included. Loads that are under way answer their
    /// callers, but their values are not kept.
    ///
    /// - Throws: The first error of the disk; all entries that could be removed are.
    public func purge() async throws {
        defer { forgetAll() }
        forgetAll()
        guard let disk else { return }
        try await disk.lane.run { () throws(any Error) in try disk.removeAll() }
    }

    /// Evicts entries from memory until at most this size is left. They stay on disk.
    public func trimMemory(to sizeInBytes: Int = 0) { memory.trim(to: sizeInBytes) }

    /// The sum of the sizes of all entries' files, in bytes; 0 for a cache in memory only. Reads no file. Files that
    /// other caches have added to the directory since it was listed are not included.
    ///
    /// - Throws: The error of listing the directory.
    public func sizeOnDisk() async throws -> Int {
        guard let disk else { return 0 }
        return try await disk.lane.run { () throws(any Error) in try disk.sizeInBytes() }
    }

    /// The counts since the creation of the cache.
    public var statistics: CacheStatistics {
        var statistics = counts.withLock { $0 }
        statistics.memory = memory.statistics
        statistics.diskEvictionCount = disk?.evictionCount ?? 0
        return statistics
    }

    private func forget(_ key: CacheKey) {
        flights.invalidate(key)
        _ = memory.remove(key)
    }

    private func forgetAll() {
        flights.invalidateAll()
        memory.removeAll()
    }
}

extension BoundedCache where Value: Codable {
    /// Creates a cache of Codable values; see ``init(directory:coding:options:fileSystem:)``.
    public convenience init(
        directory: URL?, options: CacheOptions = CacheOptions(), fileSystem: any POSIXFileSystem = SystemFileSystem()
    ) throws {
        try self.init(directory: directory, coding: .codable, options: options, fileSystem: fileSystem)
    }
}

extension BoundedCache where Value == Data {
    /// Creates a cache of bytes, which are stored as they are; see ``init(directory:coding:options:fileSystem:)``.
    public convenience init(
        directory: URL?, options: CacheOptions = CacheOptions(), fileSystem: any POSIXFileSystem = SystemFileSystem()
    ) throws {
        try self.init(directory: directory, coding: .bytes, options: options, fileSystem: fileSystem)
    }
}

/// An entry in memory.
final class CacheEntry<Value: Sendable>: Sendable {
    /// Nil if the entry says that there is no value.
    let value: Value?
    let tag: String?
    /// In milliseconds since 1970; nil for no end.
    let expiry: Int64?

    init(value: Value?, tag: String?, expiry: Int64?) {
        (self.value, self.tag, self.expiry) = (value, tag, expiry)
    }

    /// The time since the expiry in milliseconds; nil if the entry lives.
    func staleness(at now: () -> Date) -> Int64? {
        guard let expiry else { return nil }
        let now = now().milliseconds
        let (difference, overflows) = now.subtractingReportingOverflow(expiry)
        guard now >= expiry else { return nil }
        return overflows ? .max : difference
    }

    var stale: StaleCacheEntry<Value> {
        StaleCacheEntry(
            value: value, tag: tag, expiredAt: Date(timeIntervalSince1970: Double(expiry ?? .max) / 1000))
    }
}

extension Date {
    /// Milliseconds since 1970, rounded down and limited to the range of the type.
    var milliseconds: Int64 {
        let milliseconds = (timeIntervalSince1970 * 1000).rounded(.down)
        return Int64(exactly: milliseconds) ?? (milliseconds < 0 ? .min : .max)
    }

    /// The end of a lifetime that begins now; nil for none.
    func expiry(after lifetime: Duration?) -> Int64? {
        guard let lifetime else { return nil }
        let (sum, overflows) = milliseconds.addingReportingOverflow(lifetime.milliseconds)
        return overflows || sum == .max ? nil : sum
    }
}

extension Duration {
    /// Whole milliseconds, limited to a century.
    var milliseconds: Int64 {
        let (seconds, attoseconds) = bounded.components
        return seconds * 1000 + attoseconds / 1_000_000_000_000_000
    }
}
