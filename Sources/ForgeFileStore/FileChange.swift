/// A change of the files in a store; see ``FileChanges``.
public enum FileChange: Hashable, Sendable {
    /// The file at the key was created, replaced or written.
    case changed(String)

    /// There is no file at the key any more, nor below it: a file was removed, or a directory with everything in it.
    case removed(String)

    /// Any files may have changed: list them again, or load those of interest.
    ///
    /// It is the first element, and follows when changes were lost, when the root was removed, replaced or created, and
    /// when the consumer is slow.
    case resync
}
