/// The extent of a synchronisation.
public enum SyncLevel: Hashable, Sendable {
    /// Content, size and attributes are durable when the call returns (`fsync(2)`; `F_FULLFSYNC` on Darwin, whose
    /// `fsync` leaves them in the device's cache).
    case full

    /// Content and size are durable; times, permissions, owner and extended attributes may be older (`fdatasync(2)`,
    /// which on ext4 writes only what is needed to read the content).
    case data

    /// Earlier writes reach the device before any later write, at an unspecified time (`F_BARRIERFSYNC`). Where there
    /// is no barrier, as ``data``.
    case barrier
}
