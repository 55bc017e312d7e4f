#if os(Linux)
/// Constants of the protocol of `/dev/fuse` (`linux/fuse.h`, version 7.31 and later).
enum FUSEProtocol {
    static let majorVersion: UInt32 = 7
    static let minorVersion: UInt32 = 38
    static let rootNode: UInt64 = 1
    static let requestHeaderSize = 40
    static let replyHeaderSize = 16
    static let attributesSize = 88
    static let entrySize = 40 + attributesSize
    static let directoryEntryHeaderSize = 24

    /// The operation of a request.
    enum Operation: UInt32 {
        case lookUp = 1
        case forget, getAttributes, setAttributes, readLink, symbolicLink
        case makeNode = 8
        case makeDirectory, unlink, removeDirectory, rename, link, open, read, write, fileSystemStatus, release
        case synchronize = 20
        case flush = 25
        case initialize, openDirectory, readDirectory, releaseDirectory, synchronizeDirectory
        case getLock, setLock, setLockWaiting, access, create, interrupt
        case destroy = 38
        case batchForget = 42
        case allocate, readDirectoryPlus, rename2
    }

    /// Features negotiated by `FUSE_INIT`.
    struct Features: OptionSet {
        let rawValue: UInt64
        static let atomicTruncation = Features(rawValue: 1 << 3)
        static let bigWrites = Features(rawValue: 1 << 5)
        static let fileLocks = Features(rawValue: 1 << 10)
        static let readDirectoryPlus = Features(rawValue: 1 << 13)
        /// The server, not the kernel, clears set-user-id and set-group-id bits when content or owner changes.
        static let dropsPrivilegeBits = Features(rawValue: 1 << 19)
        static let maximumPages = Features(rawValue: 1 << 22)
        static let extended = Features(rawValue: 1 << 30)
        /// Files that bypass the page cache for reads and writes can still be mapped (7.39).
        static let directMapping = Features(rawValue: 1 << 36)
    }

    /// The attributes to set.
    struct AttributeChanges: OptionSet {
        let rawValue: UInt32
        static let mode = AttributeChanges(rawValue: 1 << 0)
        static let user = AttributeChanges(rawValue: 1 << 1)
        static let group = AttributeChanges(rawValue: 1 << 2)
        static let size = AttributeChanges(rawValue: 1 << 3)
        static let accessed = AttributeChanges(rawValue: 1 << 4)
        static let modified = AttributeChanges(rawValue: 1 << 5)
        static let byHandle = AttributeChanges(rawValue: 1 << 6)
        static let accessedNow = AttributeChanges(rawValue: 1 << 7)
        static let modifiedNow = AttributeChanges(rawValue: 1 << 8)
    }

    /// `FOPEN_DIRECT_IO`: every read and write reaches the server.
    static let directIO: UInt32 = 1
    /// `FUSE_GETATTR_FH`.
    static let attributesByHandle: UInt32 = 1
    /// `FUSE_LK_FLOCK`.
    static let wholeFileLock: UInt32 = 1
    /// `FUSE_FSYNC_FDATASYNC`.
    static let dataOnly: UInt32 = 1
    /// `FUSE_WRITE_CACHE`: write-back of a mapping's pages, whichever process changed them.
    static let fromCache: UInt32 = 1
}
#endif
