extension ConformanceChecks {
    /// The promises of every file system, on an empty directory and as a user who passes all permission checks.
    ///
    /// The expectations come from ext4, XFS, btrfs and tmpfs; where they differ, a check accepts each answer. Separate
    /// lists check file systems with a special set-up.
    public static let fileSystem: [ConformanceCheck<FileSystemUnderTest>] =
        fileSystemOpening + fileSystemNames + fileSystemDirectories + fileSystemRenaming + fileSystemLinks
        + fileSystemEntries + fileSystemContent + fileSystemCopying + fileSystemMapping + fileSystemOffsets
        + fileSystemAttributes + fileSystemPathResolution + fileSystemPipes + fileSystemTrees + fileSystemPrivileges
        + fileSystemConcurrency
        + fileSystemWaiting
}
