public import ForgeFileSystem

/// The options of a file store.
public struct FileStoreOptions: Hashable, Sendable {
    /// How durable a save or a removal is when the call returns; `.full` by default.
    public var durability: Durability

    /// The maximum size of a file that ``FileStoring/load(_:)`` loads; by default what memory can hold. For a larger
    /// one it throws ``FileStoreError/Code/tooLarge`` before allocating memory; read it in parts, with
    /// ``StreamingFileStoring/reader(for:)``. Set a limit where others can put files into the store.
    public var maximumLoadSizeInBytes: Int

    /// Creates options with default values.
    public init(durability: Durability = .full, maximumLoadSizeInBytes: Int = .max) {
        self.durability = durability
        self.maximumLoadSizeInBytes = maximumLoadSizeInBytes
    }
}
