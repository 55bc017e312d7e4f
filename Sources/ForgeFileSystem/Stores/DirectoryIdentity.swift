/// The identity of a directory while it exists or is held open: inode numbers of removed directories are reused at
/// once.
package struct DirectoryIdentity: Hashable, Sendable {
    var inode: UInt64
    var device: UInt64

    package init(_ status: FileStatus) {
        inode = status.inode
        device = status.device
    }
}
