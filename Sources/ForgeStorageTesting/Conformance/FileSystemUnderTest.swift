public import ForgeFileSystem
public import SystemPackage

/// A file system, a working directory in it, and its expected properties.
public struct FileSystemUnderTest: Sendable {
    /// The file system, as a user who passes all permission checks; other users fail some checks.
    public var fileSystem: any POSIXFileSystem

    /// The absolute path, without symbolic links, of an empty directory for the check.
    public var root: POSIXPath

    /// The system whose error numbers and limits are expected.
    public var profile = InMemoryFileSystem.Profile.linux

    /// Whether `A` and `a` are the same name.
    public var isCaseInsensitive = false

    /// Whether canonically equivalent names are the same name.
    public var isNormalisationInsensitive = false

    /// Whether a directory's link count includes its subdirectories; on btrfs it is always 1.
    public var countsSubdirectories = true

    /// The umask of the process.
    public var umask: FilePermissions = [.groupWrite, .otherWrite]

    /// The file system as another, unprivileged user, for the permission checks.
    public var asUser: (@Sendable (UserID, GroupID) -> any POSIXFileSystem)?

    /// An empty directory on another device, for the device checks.
    public var otherDevice: POSIXPath?

    /// Makes the device read-only, for the read-only checks.
    public var makeReadOnly: (@Sendable () throws -> Void)?

    /// Creates a file system under test with the properties of Linux.
    public init(_ fileSystem: any POSIXFileSystem, root: POSIXPath) {
        self.fileSystem = fileSystem
        self.root = root
    }
}
