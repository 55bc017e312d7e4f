package import ForgeFileSystem

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

/// A file system that has classes of protection of its own, as the one of a simulated device.
package protocol FileProtecting: POSIXFileSystem {
    /// Gives a file or directory a class; a directory passes its own on to what is created in it from then on.
    func setProtection(_ protection: FileProtection, of path: POSIXPath) throws(FileSystemError)
}

extension FileProtection {
    /// Sets the class on a directory; without effect on a file system that has no classes.
    func apply(to path: POSIXPath, on fileSystem: any POSIXFileSystem) throws(FileSystemError) {
        if let fileSystem = fileSystem as? any FileProtecting {
            try fileSystem.setProtection(self, of: path)
        } else if fileSystem is SystemFileSystem {
            try applyOnSystem(to: path)
        }
    }
}
