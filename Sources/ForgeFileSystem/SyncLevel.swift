/// The extent of a synchronisation.
public enum SyncLevel: Hashable, Sendable {
    /// Content, size and attributes are durable when the call returns (`fsync(2)`; `F_FULLFSYNC` on Darwin, whose
    /// `fsync` leaves them in the device's cache).
    case full

    /// As ``full``, but times may be older (`fdatasync(2)`).
    case data

    /// Earlier writes reach the device before any later write, at an unspecified time (`F_BARRIERFSYNC`; `fdatasync(2)`
    /// where there is no barrier).
    case barrier
}
