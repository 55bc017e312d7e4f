extension InMemoryFileSystem {
    /// What a mounted file system has and allows.
    struct Device: Sendable {
        var quota: Quota
        var isReadOnly: Bool
        var usedBlocks: Int64 = 0
        var usedInodes = 0

        var hasFreeInode: Bool { quota.inodeCount.map { usedInodes < $0 } ?? true }

        var freeBlocks: Int64 {
            guard let limit = quota.sizeInBytes else { return .max }
            return max(0, limit / FileContent.blockSize - usedBlocks)
        }
    }

    /// What a device has given out.
    public struct Usage: Hashable, Sendable {
        /// The space that file contents take, in whole blocks of 4096 bytes.
        public var sizeInBytes: Int64

        /// How many files, directories and links there are, unlinked ones that are still open included.
        public var inodeCount: Int

        /// Creates a usage.
        public init(sizeInBytes: Int64, inodeCount: Int) {
            self.sizeInBytes = sizeInBytes
            self.inodeCount = inodeCount
        }
    }
}
