public import SystemPackage

/// One name in a directory.
public struct DirectoryEntry: Hashable, Sendable {
    /// The bytes of the name: one component, never `.` or `..`.
    public var name: POSIXPath

    /// The type of what the name leads to, the link itself for a symbolic link.
    public var type: FileType

    /// The number of the inode that the name leads to.
    public var inode: UInt64

    /// Creates an entry.
    public init(name: POSIXPath, type: FileType, inode: UInt64) {
        self.name = name
        self.type = type
        self.inode = inode
    }
}
