/// Which directory it is, as long as it exists or is held open: numbers of removed inodes are reused at once.
struct DirectoryIdentity: Hashable, Sendable {
    var inode: UInt64
    var device: UInt64

    init(_ status: FileStatus) {
        inode = status.inode
        device = status.device
    }
}
