extension InMemoryFileSystem {
    /// A mounted file system: its limits and usage.
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

    /// The used space and inodes of a device.
    public struct Usage: Hashable, Sendable {
        /// The space that file contents take, in whole blocks of 4096 bytes.
        public var sizeInBytes: Int64

        /// The number of files, directories and links, including unlinked ones that are still open.
        public var inodeCount: Int

        /// Creates a usage.
        public init(sizeInBytes: Int64, inodeCount: Int) {
            self.sizeInBytes = sizeInBytes
            self.inodeCount = inodeCount
        }
    }
}
