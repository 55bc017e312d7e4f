import SystemPackage

/// The underlying error of the `EPERM` of a file whose content the system protects while the device is locked.
package struct ProtectedDataUnavailable: Error, Hashable, CustomStringConvertible {
    package var description: String { "the device is locked" }

    package init() {}
}

extension FileSystemError {
    /// Whether the operation failed because the device is locked, or was not unlocked since it started: the file is
    /// there, and its content cannot be reached until the device is unlocked.
    ///
    /// Apple's systems say so with `EPERM` when the content of a protected file is asked for, which is also what a
    /// sandbox says of a file that is none of the app's; inside an app's own directories it is the lock. Other systems
    /// know no such state, so there `EPERM` is just that.
    public var isLocked: Bool {
        guard errno == .notPermitted else { return false }
        return underlying is ProtectedDataUnavailable || FileSystemOperation.failingWhileLocked.contains(operation)
    }
}
