public import SystemPackage

/// The status of a file (`stat(2)`).
public struct FileStatus: Hashable, Sendable {
    /// Regular file, directory, symbolic link and so on.
    public var type: FileType

    /// The permission bits, set-user-id, set-group-id and sticky bit included.
    public var permissions: FilePermissions

    /// The length of the content; of a symbolic link, the length of its target's path.
    public var sizeInBytes: Int64

    /// The space allocated on the device, less than the size if the file has holes.
    public var allocatedSizeInBytes: Int64

    /// The number of the inode, unique within ``device`` while the file exists.
    public var inode: UInt64

    /// The device, or mounted file system, that holds the file.
    public var device: UInt64

    /// The number of hard links; 0 for an open file whose last name was removed.
    public var linkCount: UInt64

    /// The user that owns the file.
    public var owner: UserID

    /// The group that owns the file.
    public var group: GroupID

    /// The time of the last read of the content, as far as the file system records it.
    public var accessed: FileTime

    /// The time of the last change of the content.
    public var modified: FileTime

    /// The time of the last change of the content or of any attribute.
    public var changed: FileTime

    /// Creates a status.
    public init(
        type: FileType, permissions: FilePermissions, sizeInBytes: Int64, allocatedSizeInBytes: Int64, inode: UInt64,
        device: UInt64, linkCount: UInt64, owner: UserID, group: GroupID, accessed: FileTime, modified: FileTime,
        changed: FileTime
    ) {
        self.type = type
        self.permissions = permissions
        self.sizeInBytes = sizeInBytes
        self.allocatedSizeInBytes = allocatedSizeInBytes
        self.inode = inode
        self.device = device
        self.linkCount = linkCount
        self.owner = owner
        self.group = group
        self.accessed = accessed
        self.modified = modified
        self.changed = changed
    }
}

/// What can be known of a file without its times.
///
/// On Linux, a look at the times of a file makes its next change record a finer time, which the flush after that change
/// then has to write too (multigrain timestamps, since 6.13): a call that does not need them asks for this.
public struct BriefFileStatus: Hashable, Sendable {
    /// The number of the inode, unique within a device while the file exists.
    public var inode: UInt64

    /// The length of the content.
    public var sizeInBytes: Int64

    /// The number of hard links; 0 for an open file whose last name was removed.
    public var linkCount: UInt64

    /// Creates a status.
    public init(inode: UInt64, sizeInBytes: Int64, linkCount: UInt64) {
        self.inode = inode
        self.sizeInBytes = sizeInBytes
        self.linkCount = linkCount
    }

    /// The part of a status.
    public init(_ status: FileStatus) {
        self.init(inode: status.inode, sizeInBytes: status.sizeInBytes, linkCount: status.linkCount)
    }
}
