public import ForgeFileSystem
public import Foundation

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
