public import ForgeFileSystem

/// How a file store works.
public struct FileStoreOptions: Hashable, Sendable {
    /// What a save and a removal have survived when the call returns; `.full` unless set.
    public var durability: Durability

    /// The largest file that ``FileStoring/load(_:)`` brings into memory; 256 MiB unless set. Larger ones are
    /// ``FileStoreError/Code/tooLarge``, and nothing is allocated for them.
    public var maximumLoadSizeInBytes: Int

    /// Options, each with its default.
    public init(durability: Durability = .full, maximumLoadSizeInBytes: Int = 256 << 20) {
        self.durability = durability
        self.maximumLoadSizeInBytes = maximumLoadSizeInBytes
    }
}
