/// One thing that a power cut may do to what was not synchronised.
public enum CrashRule: String, Hashable, Sendable, CaseIterable {
    /// Changes of names that no `fsync` of their directory followed may be missing, each for itself.
    case losesNames = "a change of a name may be lost until its directory is synchronised"

    /// A file that was renamed into another directory may have both names.
    case splitsRenames = "a file renamed across directories may have both names"

    /// Every block of a file may hold any of the contents that it had since the last `fsync`.
    case losesBlocks = "a block may hold any of its versions until its file is synchronised"

    /// A file may have any of the sizes that it had since the last `fsync`, whatever became of its blocks.
    case losesSizes = "a size may be any that the file had until the file is synchronised"

    /// Permissions, owner and times that were set may be the old ones.
    case losesAttributes = "attributes may be the old ones until the file is synchronised"

    /// A block may be new up to the border of a sector and old from there on.
    case tearsBlocks = "a block may be torn at the border of a sector"
}
