public import ForgeFileSystem
public import SystemPackage

/// A file system, a directory in it to work in, and what is known of it beforehand.
public struct FileSystemUnderTest: Sendable {
    /// The file system, as a user who passes every permission check; where that is not so, some checks fail.
    public var fileSystem: any POSIXFileSystem

    /// The absolute path, without a symbolic link, of an empty directory that belongs to the check alone.
    public var root: POSIXPath

    /// Whose error numbers and limits are expected.
    public var profile = InMemoryFileSystem.Profile.linux

    /// Whether `A` and `a` are expected to be one name.
    public var isCaseInsensitive = false

    /// Whether canonically equivalent names are expected to be one.
    public var isNormalisationInsensitive = false

    /// Whether a directory's link count tells how many subdirectories it has; btrfs always says 1.
    public var countsSubdirectories = true

    /// The umask of the process.
    public var umask: FilePermissions = [.groupWrite, .otherWrite]

    /// The same file system as another user without privileges sees it; for the permission checks only.
    public var asUser: (@Sendable (UserID, GroupID) -> any POSIXFileSystem)?

    /// An empty directory on another device; for the device checks only.
    public var otherDevice: POSIXPath?

    /// Makes the device refuse every change from now on; for the read-only checks only.
    public var makeReadOnly: (@Sendable () throws -> Void)?

    /// A file system under test that follows Linux and is sensitive to case and normalisation, unless told otherwise.
    public init(_ fileSystem: any POSIXFileSystem, root: POSIXPath) {
        self.fileSystem = fileSystem
        self.root = root
    }
}
