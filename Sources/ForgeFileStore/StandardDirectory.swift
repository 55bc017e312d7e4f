/// A directory that the system keeps for a kind of data.
public enum StandardDirectory: String, Hashable, Sendable, CaseIterable {
    /// What the user made and may look at: `Documents` on Apple platforms, `XDG_DOCUMENTS_DIR` on Linux, from the
    /// environment or from `user-dirs.dirs`, and `~/Documents` if there is neither.
    case documents

    /// What the app needs and the user does not see: `Application Support` on Apple platforms, `XDG_DATA_HOME` or
    /// `~/.local/share` on Linux.
    case applicationSupport

    /// What can be made again and may vanish: `Caches` on Apple platforms, `XDG_CACHE_HOME` or `~/.cache` on Linux.
    case caches
}
