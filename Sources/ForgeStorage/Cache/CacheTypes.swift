import ForgeCoding
public import ForgeFileSystem
public import Foundation

#if canImport(Darwin)
import Darwin
import Dispatch
#endif

/// The settings of a ``BoundedCache``.
public struct CacheOptions: Sendable {
    /// The limits of the layer in memory; 32 MiB by default.
    public var memory = CacheLimits(sizeInBytes: 32 << 20)

    /// The source of warnings on which the layer in memory evicts entries; the operating system by default.
    public var memoryPressure = MemoryPressure.system

    /// The limits of the layer on disk, whose files are counted with their headers; 256 MiB by default.
    public var disk = CacheLimits(sizeInBytes: 256 << 20)

    /// The time after an entry's expiry in which it is returned at once while its key is loaded again; none by default.
    public var staleWhileLoading: Duration = .zero

    /// The time after an entry's expiry in which it is returned if loading fails; one day by default.
    public var staleIfLoadFails: Duration = .seconds(86_400)

    /// The failures that an entry on disk survives. By default a kill of the process; after a power cut an entry may be
    /// missing, and a torn one is detected and removed.
    public var durability = Durability.none

    /// The clock of lifetimes.
    public var now: @Sendable () -> Date = { Date() }

    /// Called with every error that a call does not throw, on any thread.
    public var onError: @Sendable (CacheError) -> Void = { _ in }

    /// Creates the default settings.
    public init() {}
}

/// The limits of one layer of a cache; both apply.
public struct CacheLimits: Hashable, Sendable {
    /// The maximum sum of the sizes of all entries, in bytes.
    public var sizeInBytes: Int

    /// The maximum number of entries.
    public var count: Int

    /// Creates limits; without an argument there is none. Negative limits are zero. With a limit of zero no entry is
    /// kept, also none of the size 0.
    public init(sizeInBytes: Int = .max, count: Int = .max) {
        self.sizeInBytes = max(sizeInBytes, 0)
        self.count = max(count, 0)
    }

    /// No limits.
    public static let unlimited = CacheLimits()

    /// Whether entries of this size together can be kept.
    func permit(_ size: Int) -> Bool { size <= sizeInBytes && sizeInBytes > 0 && count > 0 }
}

/// The form of a cache's values on disk, and their sizes in memory.
public struct CacheCoding<Value: Sendable>: Sendable {
    /// Encodes a value.
    public var encode: @Sendable (Value) throws -> Data

    /// Decodes a value; an entry for which it throws counts as missing.
    public var decode: @Sendable (Data) throws -> Value

    /// The size of a value in memory, in bytes; nil for the size of its encoded form.
    public var cost: (@Sendable (Value) -> Int)?

    /// Creates a coding.
    public init(
        encode: @escaping @Sendable (Value) throws -> Data, decode: @escaping @Sendable (Data) throws -> Value,
        cost: (@Sendable (Value) -> Int)? = nil
    ) {
        self.encode = encode
        self.decode = decode
        self.cost = cost
    }
}

extension CacheCoding where Value: Codable {
    /// Any Codable value, as `ForgeCoding.ValueCoder` encodes it.
    public static var codable: CacheCoding {
        CacheCoding {
            Data(try ValueCoder().encode($0))
        } decode: {
            try ValueCoder().decode(Value.self, from: Array($0))
        }
    }
}

extension CacheCoding where Value == Data {
    /// Bytes as they are.
    public static var bytes: CacheCoding { CacheCoding(encode: { $0 }, decode: { $0 }, cost: \.count) }
}

/// The result of loading the value of a key.
public enum CacheLoad<Value: Sendable>: Sendable {
    /// A value, its lifetime (nil for no end) and a tag to ask for changes with, such as an entity tag of HTTP.
    case value(Value, expiresAfter: Duration? = nil, tag: String? = nil)

    /// The stale entry is still right and lives on for this time, with its tag.
    case notModified(expiresAfter: Duration? = nil)

    /// There is no value; that is remembered for this time.
    case absent(expiresAfter: Duration)
}

/// An entry whose lifetime has ended.
public struct StaleCacheEntry<Value: Sendable>: Sendable {
    /// The value; nil if the entry said that there is none.
    public let value: Value?

    /// The tag that it was stored with.
    public let tag: String?

    /// The end of its lifetime.
    public let expiredAt: Date
}

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

/// A problem of a ``BoundedCache`` or an ``ImageCacheManager`` with one key. It contains no value.
public struct CacheError: Error {
    /// The failed operation of a ``BoundedCache``, or what is wrong with a file of an ``ImageCacheManager``.
    public enum Reason: Hashable, Sendable {
        /// Reading an entry from disk failed; the value was loaded.
        case read

        /// Decoding an entry from disk failed; the value was loaded.
        case decode

        /// Encoding a value failed; it is in memory only or, without ``CacheCoding/cost``, not kept, since its size is
        /// unknown.
        case encode

        /// Storing an entry on disk, or removing evicted ones, failed; the value is in memory.
        case write

        /// Loading a value failed for which a stale one was returned, or that was loaded in advance.
        case load

        /// A load without a stale entry answered ``CacheLoad/notModified(expiresAfter:)``.
        case renew

        /// The image's file exists but contains no image: it is damaged, belongs to another program, or is intact but
        /// not an image. The underlying error's description tells which.
        case undecodable

        /// The image's file was written by a later version of this package, in this version of the format.
        case newerVersion(UInt32)

        /// The image's file contains another image, ``CacheError/storedID``: files of the cache were renamed or
        /// swapped.
        case mismatch

        /// The name of the image's file belongs to a symbolic link, a directory, a special file or a file with several
        /// hard links, which is left unchanged.
        case foreign

        /// The image's file would exceed 256 MiB.
        case tooLarge

        /// The decoded image would exceed the limit of the call; it was not decoded.
        case tooLargeToDecode(sizeInBytes: Int)
    }

    /// The failed operation, or what is wrong with the file.
    public let reason: Reason

    /// The key; of an image, its identifier.
    public let key: String

    /// The identifier of the image that the file contains, for ``Reason/mismatch``.
    public let storedID: String?

    /// The error of the operation; of a failed coding a `CodingFailure`, since the coding's own error may quote the value.
    public let underlying: (any Error)?

    init(_ reason: Reason, key: String, storedID: String? = nil, underlying: (any Error)? = nil) {
        self.reason = reason
        self.key = key
        self.storedID = storedID
        self.underlying = underlying
    }
}

extension CacheError: CustomStringConvertible {
    public var description: String {
        let name = key.debugDescription
        let text =
            switch reason {
            case .read, .decode, .encode, .write, .load: "\(reason) the cache entry \(name)"
            case .renew: "renew the cache entry \(name): no entry"
            case .undecodable: "the cached image \(name) is damaged"
            case .newerVersion(let version):
                "the cached image \(name) has version \(version) of the format, newer than this package"
            case .mismatch: "the file of the cached image \(name) holds \((storedID ?? "").debugDescription)"
            case .foreign: "the name of the cached image \(name) belongs to something else"
            case .tooLarge: "the image \(name) is larger than 256 MiB"
            case .tooLargeToDecode(let size): "the image \(name) would decode to \(size) bytes"
            }
        return text + (underlying.map { ": \($0)" } ?? "")
    }
}

/// A source of low-memory warnings, which make caches evict entries from memory.
///
/// On a warning a cache keeps half of the size and half of the entries in memory, on a critical one nothing; entries on
/// disk stay. Caches use ``system`` unless another source is given, such as one that a test or a server controls.
public struct MemoryPressure: Sendable {
    /// How scarce memory is.
    public enum Level: Hashable, Sendable {
        /// Memory becomes scarce.
        case warning

        /// The system is about to end processes.
        case critical
    }

    private let start: @Sendable (_ handler: @escaping @Sendable (Level) -> Void) -> AnyObject?

    /// Creates a source.
    ///
    /// - Parameter start: Starts to call a handler with every warning, on any thread. Every cache calls it once and
    ///   keeps the returned object as long as it lives. The `deinit` of the object should end the calls; later ones
    ///   have no effect. The object may be released during a call of the handler, on its thread.
    public init(_ start: @escaping @Sendable (_ handler: @escaping @Sendable (Level) -> Void) -> AnyObject?) {
        self.start = start
    }

    /// Keeps a handler subscribed while it exists.
    ///
    /// `@unchecked Sendable`: the object is only kept and released.
    final class Observation: @unchecked Sendable {
        private let object: AnyObject?

        init(_ pressure: MemoryPressure, _ handler: @escaping @Sendable (Level) -> Void) {
            object = pressure.start(handler)
        }
    }

    /// A source without warnings.
    public static let none = MemoryPressure { _ in nil }

    #if !canImport(Darwin)
    /// The warnings of the operating system: on Apple's platforms those of `DispatchSource`; none elsewhere.
    public static let system = none
    #endif
}

#if canImport(Darwin)
extension MemoryPressure {
    /// The warnings of the operating system: on Apple's platforms those of `DispatchSource`; none elsewhere.
    public static let system = MemoryPressure { handler in Sources(handler) }

    /// A dispatch source for each level, cancelled with its release.
    private final class Sources {
        private let sources: [any DispatchSourceMemoryPressure]

        init(_ handler: @escaping @Sendable (Level) -> Void) {
            let warning = DispatchSource.makeMemoryPressureSource(eventMask: .warning, queue: .global())
            warning.setEventHandler { handler(.warning) }
            let critical = DispatchSource.makeMemoryPressureSource(eventMask: .critical, queue: .global())
            critical.setEventHandler { handler(.critical) }
            sources = [warning, critical]
            for source in sources { source.activate() }
        }

        deinit {
            for source in sources { source.cancel() }
        }
    }
}
#endif
