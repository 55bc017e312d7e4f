/// A possible effect of a power cut on changes that were not synchronised.
public enum CrashRule: String, Hashable, Sendable, CaseIterable {
    /// Changes of names not followed by an `fsync` of their directory may be lost independently.
    case losesNames = "a change of a name may be lost until its directory is synchronised"

    /// A file that was renamed into another directory may have both names.
    case splitsRenames = "a file renamed across directories may have both names"

    /// Every block of a file may have any of its contents since the last `fsync`.
    case losesBlocks = "a block may hold any of its versions until its file is synchronised"

    /// A file may have any of its sizes since the last `fsync`, independent of its blocks.
    case losesSizes = "a size may be any that the file had until the file is synchronised"

    /// Permissions, owner and explicitly set times may be the old ones.
    case losesAttributes = "attributes may be the old ones until the file is synchronised"

    /// A block may be new up to a sector boundary and old after it.
    case tearsBlocks = "a block may be torn at the border of a sector"
}
