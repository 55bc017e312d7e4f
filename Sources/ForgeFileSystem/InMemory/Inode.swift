import SystemPackage

extension InMemoryFileSystem {
    /// The attributes of a file, directory, symbolic link or special file, independent of its names.
    ///
    /// Contents are in separate tables, so that this is plain memory, cheap to access.
    struct Inode: Sendable {
        /// The type, with the numbers of `S_IFMT`, which are the same on all platforms. These are constants; those of
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

        // Ordered without padding: creating a file writes one of these.

        /// The number in recorded effects and images, never reused by a file system. `stat` shows another number
        /// (`State.inodeNumber`), which is reused.
        var number: UInt64 = 0
        /// For a device node.
        var deviceNumber: UInt64 = 0
        var accessed = FileTime(seconds: 0)
        /// The number of open files, working directories and removed subdirectories that keep the inode without a name.
        var holderCount: Int32 = 0
        var modified = FileTime(seconds: 0)
        /// For a directory.
        var subdirectoryCount: Int32 = 0
        var changed = FileTime(seconds: 0)
        /// `flock(2)`: the number of open files that share the lock, -1 for an exclusive lock.
        var lockCount: Int32 = 0
        /// For a directory: the index of its parent in the table of inodes.
        var parent = 0
        /// The index of its device in the table of devices.
        var device = 0
        /// The number of names; for a directory 1 while it is in the tree, 0 once it was removed.
        var nameCount = 0
        var permissions = FilePermissions()
        var owner = UserID(0)
        var group = GroupID(0)
        var kind = Kind.regular
        /// For a directory: whether it is the root of a device.
        var isMountPoint = false

        var isDirectory: Bool { kind == .directory }

        /// Sets all times, as at its creation.
        mutating func setTimes(_ time: FileTime) {
            accessed = time
            modified = time
            changed = time
        }

        /// Updates the times after a change of the content, or of a directory's names.
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
    /// The status in `stat(2)`, given the inode number, the length of the content or target, the allocated blocks, the
    /// number of a directory's entries, and the profile that determines how links are counted.
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

/// The user attributes of an inode, with the limits of ext4.
package struct ExtendedAttributes: Hashable, Sendable {
    /// The maximum size of a value (`XATTR_SIZE_MAX`).
    static let maximumValueSizeInBytes = 65_536

    /// By name, as bytes: names that are canonically equivalent strings are different.
    private var values: [[UInt8]: [UInt8]] = [:]

    package var isEmpty: Bool { values.isEmpty }

    /// The names in the order of their bytes, so that every run lists them alike.
    package var names: [[UInt8]] { values.keys.sorted { $0.lexicographicallyPrecedes($1) } }

    package subscript(name: [UInt8]) -> [UInt8]? { values[name] }

    /// The same with a new value; nil if one block of 4096 bytes cannot hold them.
    func setting(_ name: [UInt8], to value: [UInt8]) -> ExtendedAttributes? {
        var changed = self
        changed.values[name] = value
        return changed.sizeInBytes <= FileContent.blockSize ? changed : nil
    }

    /// The size in a block of attributes: a header, an entry for each name, four zeros, and the values, with names and
    /// values rounded up to four bytes (`fs/ext4/xattr.h`).
    private var sizeInBytes: Int64 {
        func rounded(_ bytes: [UInt8]) -> Int { (bytes.count + 3) / 4 * 4 }
        return Int64(values.reduce(32 + 4) { $0 + 16 + rounded($1.key) + rounded($1.value) })
    }
}
