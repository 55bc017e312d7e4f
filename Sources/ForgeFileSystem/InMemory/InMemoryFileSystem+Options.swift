public import SystemPackage

extension InMemoryFileSystem {
    /// The operating system whose error numbers and limits apply where the two differ.
    public enum Profile: Hashable, Sendable, CaseIterable {
        /// 40 symbolic links, paths of 4095 bytes, names of any bytes, `pwrite` appends to a file opened for appending.
        case linux

        /// 32 symbolic links, paths of 1023 bytes, names in UTF-8, `EPERM` for unlinking a directory, `pwrite` honours
        /// its offset.
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

        /// As on a Mac: APFS in its default form, which ignores case and normalisation.
        public static var darwin: Options {
            Options(profile: .darwin, isCaseInsensitive: true, isNormalisationInsensitive: true)
        }
    }
}
