/// How far a synchronisation pushes what was written.
public enum SyncLevel: Hashable, Sendable {
    /// Content, size and attributes are on the device when the call returns (`fsync(2)`; `F_FULLFSYNC` on Darwin, whose
    /// `fsync` leaves them in the device's cache).
    case full

    /// As ``full``, but times may lag (`fdatasync(2)`).
    case data

    /// What was written before is on the device before anything written later, whenever that is (`F_BARRIERFSYNC`;
    /// `fdatasync(2)` where there is no barrier).
    case barrier
}
