/// The treatment of an existing target of a rename (`renameat2(2)`, `renameatx_np(2)`).
public enum RenameMode: Hashable, Sendable {
    /// The target is replaced, atomically.
    case replacing

    /// `EEXIST` if the target exists.
    case exclusive

    /// Both must exist and are swapped, atomically.
    case exchanging
}
