/// A standard directory of the system for one kind of data.
public enum StandardDirectory: String, Hashable, Sendable, CaseIterable {
    /// Files that the user creates and sees: `Documents` on Apple platforms; on Linux `XDG_DOCUMENTS_DIR` from the
    /// environment or from `user-dirs.dirs`, or `~/Documents` if neither defines it.
    case documents

    /// Files of the app that the user does not see: `Application Support` on Apple platforms, `XDG_DATA_HOME` or
    /// `~/.local/share` on Linux.
    case applicationSupport

    /// Files that the app can recreate and the system may delete: `Caches` on Apple platforms, `XDG_CACHE_HOME` or
    /// `~/.cache` on Linux.
    case caches
}
