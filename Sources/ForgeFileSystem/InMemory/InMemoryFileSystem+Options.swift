public import SystemPackage

extension InMemoryFileSystem {
    /// The operating system whose error numbers and limits apply where the two differ.
    public enum Profile: Hashable, Sendable, CaseIterable {
        /// 40 symbolic links, paths of 4095 bytes, names of any bytes, `pwrite` appends to a file opened for appending.
        case linux

        /// 32 symbolic links, paths of 1023 bytes, names in UTF-8, `EPERM` for unlinking a directory, `pwrite` honours
        /// its offset; `PathResolution.beneath` only together with `noSymbolicLinks`.
        case darwin
    }

    /// The limits of a device.
    public struct Quota: Hashable, Sendable {
        /// The maximum size of all file contents, in whole blocks of 4096 bytes; nil for no limit.
        public var sizeInBytes: Int64?

        /// The maximum number of files, directories and links, including the root; nil for no limit.
        public var inodeCount: Int?

        /// Creates a quota; omitted limits do not apply.
        public init(sizeInBytes: Int64? = nil, inodeCount: Int? = nil) {
            self.sizeInBytes = sizeInBytes
            self.inodeCount = inodeCount
        }
    }

    /// The order in which a directory lists its names. It is never alphabetical.
    public enum ListingOrder: Hashable, Sendable {
        /// In the order in which the names were added.
        case insertion

        /// A pseudo-random order determined by the seed and the names.
        case shuffled(seed: UInt64)
    }

    /// The properties of a file system and the identity of its first process.
    public struct Options: Sendable {
        /// The system whose error numbers and limits apply.
        public var profile: Profile

        /// Whether `A` and `a` are one name, listed as first given (full case folding: `ß` is `ss`).
        public var isCaseInsensitive: Bool

        /// Whether canonically equivalent names are one, listed as first given.
        public var isNormalisationInsensitive: Bool

        /// The limits of the root's device.
        public var quota: Quota

        /// Whether the root's device refuses every change with `EROFS`.
        public var isReadOnly: Bool

        /// The maximum number of open descriptors per process; one more is `EMFILE`.
        public var maximumOpenFileCount: Int

        /// The maximum number of hard links of a file; one more is `EMLINK`.
        public var maximumLinkCount = 65_000

        /// The maximum file size, beyond which calls fail with `EFBIG`. The default is that of ext4.
        public var maximumFileSizeInBytes: Int64 = 17_592_186_040_320

        /// The maximum number of directories watched by all processes; one more is `ENOSPC`.
        public var maximumWatchCount = 65_536

        /// The maximum number of events that a watch keeps until they are delivered; later ones are lost.
        public var maximumQueuedEventCount = 16_384

        /// The order of listings.
        public var listingOrder: ListingOrder

        /// The user of the process; 0 passes every permission check.
        public var user: UserID

        /// The group of the process.
        public var group: GroupID

        /// The supplementary groups of the process.
        public var groups: [GroupID]

        /// The permissions withheld from new files.
        public var umask: FilePermissions

        /// The source of time stamps, called at most once per operation and never concurrently; it must not call the
        /// file system. If nil, a clock that starts in 2001 and advances by a millisecond with each operation that sets
        /// a stamp, so that times reflect the order of changes.
        public var clock: (@Sendable () -> FileTime)?

        /// The seed of the random bits for names of temporary files.
        public var seed: UInt64

        /// Creates options; the defaults are Linux, case-sensitive, without limits, as root.
        public init(
            profile: Profile = .linux, isCaseInsensitive: Bool = false, isNormalisationInsensitive: Bool = false,
            quota: Quota = Quota(), isReadOnly: Bool = false, maximumOpenFileCount: Int = 1024,
            listingOrder: ListingOrder = .insertion, user: UserID = UserID(0), group: GroupID = GroupID(0),
            groups: [GroupID] = [], umask: FilePermissions = [.groupWrite, .otherWrite],
            clock: (@Sendable () -> FileTime)? = nil, seed: UInt64 = 0
        ) {
            self.profile = profile
            self.isCaseInsensitive = isCaseInsensitive
            self.isNormalisationInsensitive = isNormalisationInsensitive
            self.quota = quota
            self.isReadOnly = isReadOnly
            self.maximumOpenFileCount = maximumOpenFileCount
            self.listingOrder = listingOrder
            self.user = user
            self.group = group
            self.groups = groups
            self.umask = umask
            self.clock = clock
            self.seed = seed
        }

        /// As on a Mac: APFS in its default form, which ignores case and normalisation, and a process with the 256
        /// descriptors that `launchd` gives an app.
        public static var darwin: Options {
            Options(
                profile: .darwin, isCaseInsensitive: true, isNormalisationInsensitive: true, maximumOpenFileCount: 256)
        }
    }
}

/// The devices of the tree: one for the root, and one for each mount point.
extension InMemoryFileSystem {
    /// Makes an empty directory the root of a new device: names cannot be moved or linked across its border (`EXDEV`),
    /// and the directory cannot be removed or renamed (`EBUSY`).
    ///
    /// - Throws: `ENOTDIR`, `ENOTEMPTY`, `EBUSY` if it is a device's root already, or an error of path resolution.
    public func mount(
        at path: POSIXPath, quota: Quota = Quota(), isReadOnly: Bool = false
    ) throws(FileSystemError) {
        try perform(.resolve, path) { (state) throws(Errno) in
            try state.mount(at: path, Device(quota: quota, isReadOnly: isReadOnly))
        }
    }

    /// Changes the limits of the device that contains `path`. Stored data is kept, even above the limit.
    public func setQuota(_ quota: Quota, at path: POSIXPath = "/") throws(FileSystemError) {
        try perform(.resolve, path) { (state) throws(Errno) in
            let device = try state.device(at: path)
            state.devices[device].quota = quota
        }
    }

    /// Makes the device that contains `path` refuse every change with `EROFS`, also through open descriptors, or
    /// permits changes again.
    public func setReadOnly(_ isReadOnly: Bool, at path: POSIXPath = "/") throws(FileSystemError) {
        try perform(.resolve, path) { (state) throws(Errno) in
            let device = try state.device(at: path)
            state.devices[device].isReadOnly = isReadOnly
        }
    }

    /// The used space and inodes of the device that contains `path`.
    public func usage(at path: POSIXPath = "/") throws(FileSystemError) -> Usage {
        try perform(.resolve, path) { (state) throws(Errno) in
            let device = state.devices[try state.device(at: path)]
            return Usage(sizeInBytes: device.usedBlocks * FileContent.blockSize, inodeCount: device.usedInodes)
        }
    }
}

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
