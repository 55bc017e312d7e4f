/// Whether the device's passcode was entered: what protected files and secrets depend on.
public enum LockState: String, Hashable, Sendable, CaseIterable {
    /// The device was started and not unlocked since.
    case beforeFirstUnlock

    /// The device was unlocked since it started, and is locked now.
    case locked

    /// The device is unlocked.
    case unlocked
}
