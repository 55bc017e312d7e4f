/// A lock on an open file (`flock(2)`): it belongs to the open file, so two opens in one process do conflict.
public enum LockMode: Hashable, Sendable {
    /// Any number of open files may hold it together.
    case shared

    /// No other open file may hold a lock.
    case exclusive

    /// Releases the lock; closing the last descriptor of the open file does too.
    case unlocked
}
