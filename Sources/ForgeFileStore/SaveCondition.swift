public import ForgeFileSystem

/// The existing file that a save may replace.
public enum SaveCondition: Hashable, Sendable {
    /// Any file, or none: the save always stores.
    case always

    /// None: otherwise the save fails with ``FileStoreError/Code/alreadyExists``.
    case absent

    /// The file with this revision: otherwise the save fails with ``FileStoreError/Code/conflict``.
    case unchanged(FileRevision)
}

extension SaveCondition {
    var renameMode: RenameMode { self == .absent ? .exclusive : .replacing }

    var expectedRevision: FileRevision? {
        guard case .unchanged(let revision) = self else { return nil }
        return revision
    }
}
