public import ForgeFileSystem

/// The options of a file store.
public struct FileStoreOptions: Hashable, Sendable {
    /// How durable a save or a removal is when the call returns; `.full` by default.
    public var durability: Durability

    /// The maximum size of a file that ``FileStoring/load(_:)`` loads; 256 MiB by default. For a larger one it throws
    /// ``FileStoreError/Code/tooLarge`` before allocating memory.
    public var maximumLoadSizeInBytes: Int

    /// Creates options with default values.
    public init(durability: Durability = .full, maximumLoadSizeInBytes: Int = 256 << 20) {
        self.durability = durability
        self.maximumLoadSizeInBytes = maximumLoadSizeInBytes
    }
}
