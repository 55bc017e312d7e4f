import SystemPackage

extension InMemoryFileSystem {
    /// The attributes of a file, directory, symbolic link or special file, whatever names lead to it.
    ///
    /// What it holds stands in tables beside that of the inodes, so that this is plain memory, cheap to look at.
    struct Inode: Sendable {
        /// What it is, with the numbers of `S_IFMT`, which are the same everywhere. Here they are constants; those of
        /// `FileType` are calls into the C library's module.
        enum Kind: UInt16, Sendable {
            case fifo = 0o010000
            case characterSpecial = 0o020000
            case directory = 0o040000
            case blockSpecial = 0o060000
            case regular = 0o100000
            case symbolicLink = 0o120000
            case socket = 0o140000
        }

        // In an order that leaves no gaps: a new file writes one of these.

        /// Never given out twice by one file system: what recorded effects and images name it by. `stat` shows another
        /// number (`State.inodeNumber`), which is reused.
        var number: UInt64 = 0
        /// Of a device node.
        var deviceNumber: UInt64 = 0
        var accessed = FileTime(seconds: 0)
        /// How many open files, working directories and removed directories inside keep it although no name may.
        var holderCount: Int32 = 0
        var modified = FileTime(seconds: 0)
        /// Of a directory.
        var subdirectoryCount: Int32 = 0
        var changed = FileTime(seconds: 0)
        /// `flock(2)`: how many open files share the lock, -1 if one has it alone.
        var lockCount: Int32 = 0
        /// Of a directory: the index of its parent in the table of inodes.
        var parent = 0
        /// The index of its device in the table of devices.
        var device = 0
        /// How many names lead here; 1 for a directory that is in the tree, 0 once it was removed.
        var nameCount = 0
        var permissions = FilePermissions()
        var owner = UserID(0)
        var group = GroupID(0)
        var kind = Kind.regular
        /// Of a directory: whether it is the root of a device of its own.
        var isMountPoint = false

        var isDirectory: Bool { kind == .directory }

        /// Gives it one time for everything, as at its creation.
        mutating func setTimes(_ time: FileTime) {
            accessed = time
            modified = time
            changed = time
        }

        /// Notes that the content has changed, or the names of a directory.
        mutating func touchContent(_ time: FileTime) {
            modified = time
            changed = time
        }

        mutating func gainName(_ time: FileTime) {
            nameCount += 1
            changed = time
        }
    }
}

extension InMemoryFileSystem.Inode {
    /// What `stat(2)` tells of it, given its number, the length of its content or target, the blocks that its content
    /// takes, how many names it holds, and whose way of counting links is asked for.
    func status(
        inode: UInt64, size: Int64, allocatedBlocks: Int64, entryCount: Int, _ profile: InMemoryFileSystem.Profile
    ) -> FileStatus {
        var links = UInt64(nameCount)
        if isDirectory, nameCount > 0 { links = 2 + UInt64(profile == .darwin ? entryCount : Int(subdirectoryCount)) }
        let allocated = isDirectory ? 1 : allocatedBlocks
        return FileStatus(
            type: kind.fileType, permissions: permissions, sizeInBytes: isDirectory ? FileContent.blockSize : size,
            allocatedSizeInBytes: allocated * FileContent.blockSize, inode: inode,
            device: UInt64(device + 1), linkCount: links, owner: owner, group: group, accessed: accessed,
            modified: modified, changed: changed)
    }
}

extension InMemoryFileSystem.Inode.Kind {
    init?(_ type: FileType) {
        self.init(rawValue: UInt16(truncatingIfNeeded: type.rawValue))
    }

    var fileType: FileType { FileType(rawValue: CInterop.Mode(rawValue)) }
}
