public import SystemPackage

extension InMemoryFileSystem {
    /// The operating system whose error numbers and limits are followed where the two differ.
    public enum Profile: Hashable, Sendable, CaseIterable {
        /// 40 symbolic links, paths of 4095 bytes, names of any bytes, `pwrite` appends to a file opened for that.
        case linux

        /// 32 symbolic links, paths of 1023 bytes, names in UTF-8, `EPERM` for unlinking a directory, `pwrite` keeps to
        /// its offset.
        case darwin
    }

    /// How much a device holds.
    public struct Quota: Hashable, Sendable {
        /// How many bytes file contents may take, counted in whole blocks of 4096 bytes; nil for no limit.
        public var sizeInBytes: Int64?

        /// How many files, directories and links there may be, the root included; nil for no limit.
        public var inodeCount: Int?

        /// A quota; no limit where nothing is given.
        public init(sizeInBytes: Int64? = nil, inodeCount: Int? = nil) {
            self.sizeInBytes = sizeInBytes
            self.inodeCount = inodeCount
        }
    }

    /// The order in which a directory lists its names. It is never the order of the alphabet.
    public enum ListingOrder: Hashable, Sendable {
        /// In the order in which the names were added.
        case insertion

        /// In an order that looks random and follows from the seed and the names alone.
        case shuffled(seed: UInt64)
    }

    /// What kind of file system to be, and who asks it.
    public struct Options: Sendable {
        /// Whose error numbers and limits apply.
        public var profile: Profile

        /// Whether `A` and `a` are one name, shown as first given (full case folding: `ß` is `ss`).
        public var isCaseInsensitive: Bool

        /// Whether canonically equivalent names are one, shown as first given.
        public var isNormalisationInsensitive: Bool

        /// The limits of the root's device.
        public var quota: Quota

        /// Whether the root's device refuses every change with `EROFS`.
        public var isReadOnly: Bool

        /// How many descriptors one process may have open; one more is `EMFILE`.
        public var maximumOpenFileCount: Int

        /// How many hard links a file may have; one more is `EMLINK`.
        public var maximumLinkCount = 65_000

        /// How long a file may grow; beyond is `EFBIG`. The default is that of ext4.
        public var maximumFileSizeInBytes: Int64 = 17_592_186_040_320

        /// The order of listings.
        public var listingOrder: ListingOrder

        /// The user that asks; 0 passes every permission check.
        public var user: UserID

        /// The group that the user asks as.
        public var group: GroupID

        /// The further groups of the user.
        public var groups: [GroupID]

        /// The permissions that no new file gets.
        public var umask: FilePermissions

        /// Where time stamps come from, called once at most for each operation and not from two threads at once; it
        /// must not call the file system. Nil for a clock that starts in 2001 and moves on by a millisecond with each
        /// operation that sets a stamp, so that the order of changes can be told from their times.
        public var clock: (@Sendable () -> FileTime)?

        /// Where the random bits start from that name temporary files.
        public var seed: UInt64

        /// Options; where nothing is given Linux, case-sensitive, without limits, as root.
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

        /// As on a Mac: APFS in its usual form, which ignores case and normalisation.
        public static var darwin: Options {
            Options(profile: .darwin, isCaseInsensitive: true, isNormalisationInsensitive: true)
        }
    }
}
