public import ForgeFileSystem

/// The options of a file store.
public struct FileStoreOptions: Hashable, Sendable {
    /// How durable a save or a removal is when the call returns; `.full` by default.
    public var durability: Durability

    /// The maximum size of a file that ``FileStoring/load(_:)`` loads; by default what memory can hold. For a larger
    /// one it throws ``FileStoreError/Code/tooLarge`` before allocating memory; read it in parts, with
    /// ``StreamingFileStoring/reader(for:)``. Set a limit where others can put files into the store.
    public var maximumLoadSizeInBytes: Int

    /// How long an asynchronous call waits for a thread, for the lock of a directory or for the device; nil for no
    /// limit, 30 seconds by default. Past it, a call throws ``FileStoreError/Code/deadlineExceeded(_:)``.
    ///
    /// A call that reads or writes much has a second more for each MiB. Calls on whole trees, batches and commits have
    /// no deadline once they have begun, other than for locks. Synchronous calls wait for the device without limit.
    public var deadline: Duration?

    /// Creates options with default values.
    public init(
        durability: Durability = .full, maximumLoadSizeInBytes: Int = .max, deadline: Duration? = .seconds(30)
    ) {
        self.durability = durability
        self.maximumLoadSizeInBytes = maximumLoadSizeInBytes
        self.deadline = deadline
    }
}
