public import SystemPackage

/// One name in a directory.
public struct DirectoryEntry: Hashable, Sendable {
    /// The bytes of the name: one component, never `.` or `..`.
    public var name: POSIXPath

    /// The type of the entry; for a symbolic link, that of the link itself.
    public var type: FileType

    /// The inode number of the entry.
    public var inode: UInt64

    /// Creates an entry.
    public init(name: POSIXPath, type: FileType, inode: UInt64) {
        self.name = name
        self.type = type
        self.inode = inode
    }
}
