/// How a rename treats a target that exists (`renameat2(2)`, `renameatx_np(2)`).
public enum RenameMode: Hashable, Sendable {
    /// The target is replaced, atomically.
    case replacing

    /// `EEXIST` if the target exists.
    case exclusive

    /// Both must exist and change places, atomically.
    case exchanging
}
