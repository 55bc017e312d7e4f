/// When the files of a store can be read on an Apple device; elsewhere it has no effect.
///
/// The class is set on the store's root directory, and the system gives it to every file that is created below.
public enum FileProtection: String, Hashable, Sendable, CaseIterable {
    /// At all times.
    case none

    /// While the device is unlocked.
    case complete

    /// While the device is unlocked; a file that is open can be read and written on after it is locked.
    case completeUnlessOpen

    /// From the first time the device is unlocked after it started.
    case completeUntilFirstUserAuthentication
}
