import SystemPackage

/// The underlying error of the `EPERM` for a file whose content is protected while the device is locked.
package struct ProtectedDataUnavailable: Error, Hashable, CustomStringConvertible {
    package var description: String { "the device is locked" }

    package init() {}
}

extension FileSystemError {
    /// Whether the operation failed because the device is locked, or has not been unlocked since it started: the file
    /// exists, and its content is inaccessible until the device is unlocked.
    ///
    /// On Apple's systems, access to the content of a protected file fails with `EPERM`. A sandbox uses the same error
    /// for files outside the app's directories; inside them it means the lock. On other systems, `EPERM`
    /// alone does not mean a locked device.
    public var isLocked: Bool {
        guard errno == .notPermitted else { return false }
        return underlying is ProtectedDataUnavailable || FileSystemOperation.failingWhileLocked.contains(operation)
    }
}
