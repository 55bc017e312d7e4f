extension ConformanceChecks {
    /// What every file system must do, on an empty directory and as a user who passes every permission check.
    ///
    /// The expectations were read off ext4, XFS, btrfs and tmpfs; a check that they disagree on accepts each answer.
    /// What needs a file system that was set up for it is in the lists beside this one.
    public static let fileSystem: [ConformanceCheck<FileSystemUnderTest>] =
        fileSystemOpening + fileSystemNames + fileSystemDirectories + fileSystemRenaming + fileSystemLinks
        + fileSystemEntries + fileSystemContent + fileSystemMapping + fileSystemOffsets + fileSystemAttributes
        + fileSystemWalks
        + fileSystemPipes + fileSystemTrees + fileSystemConcurrency + fileSystemWaiting
}
