/// The lock state of a device, on which access to protected files and secrets depends.
public enum LockState: String, Hashable, Sendable, CaseIterable {
    /// The device has not been unlocked since it started.
    case beforeFirstUnlock

    /// The device has been unlocked since it started, and is locked now.
    case locked

    /// The device is unlocked.
    case unlocked
}
