import SystemPackage

extension InMemoryFileSystem {
    /// A file, directory, symbolic link or special file, whatever names lead to it.
    struct Inode: Sendable {
        /// Never given out twice by one file system.
        var number: UInt64
        var type: FileType
        var permissions: FilePermissions
        var owner: UserID
        var group: GroupID
        /// Where its device stands in the table of devices.
        var device: Int
        /// How many names lead here; 1 for a directory that is in the tree, 0 once it was removed.
        var nameCount = 0
        /// How many open files, working directories and removed directories inside keep it although no name may.
        var holderCount = 0
        var accessed: FileTime
        var modified: FileTime
        var changed: FileTime

        /// Of a regular file.
        var content = FileContent()
        /// Of a directory.
        var names = NameTable()
        /// Of a directory: where its parent stands in the table of inodes.
        var parent = 0
        /// Of a directory.
        var subdirectoryCount = 0
        /// Of a directory: whether it is the root of a device of its own.
        var isMountPoint = false
        /// Of a symbolic link.
        var target: POSIXPath?
        /// Of a device node.
        var deviceNumber: UInt64 = 0
        /// `flock(2)`: how many open files share the lock, -1 if one has it alone.
        var lockCount = 0

        var isDirectory: Bool { type == .directory }
        var isSymbolicLink: Bool { type == .symbolicLink }
        var isRegular: Bool { type == .regular }
        var isRemovedDirectory: Bool { isDirectory && nameCount == 0 }
    }
}

extension InMemoryFileSystem.Inode {
    /// What `stat(2)` tells of it.
    func status(_ profile: InMemoryFileSystem.Profile) -> FileStatus {
        let size: Int64
        let allocated: Int64
        var links = UInt64(nameCount)
        if isDirectory {
            (size, allocated) = (FileContent.blockSize, FileContent.blockSize)
            if nameCount > 0 { links = 2 + UInt64(profile == .darwin ? names.count : subdirectoryCount) }
        } else {
            size = target.map { Int64($0.count) } ?? content.size
            allocated = content.allocatedBlocks * FileContent.blockSize
        }
        return FileStatus(
            type: type, permissions: permissions, sizeInBytes: size, allocatedSizeInBytes: allocated, inode: number,
            device: UInt64(device + 1), linkCount: links, owner: owner, group: group, accessed: accessed,
            modified: modified, changed: changed)
    }
}
