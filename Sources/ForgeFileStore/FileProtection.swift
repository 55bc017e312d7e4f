package import ForgeFileSystem

/// The data protection class of a store's files: when they can be read on an Apple device. No effect elsewhere.
///
/// The class is set on the store's root directory; files that are created below inherit it.
public enum FileProtection: String, Hashable, Sendable, CaseIterable {
    /// At all times.
    case none

    /// While the device is unlocked.
    case complete

    /// While the device is unlocked; a file that is open stays readable and writable after the device is locked.
    case completeUnlessOpen

    /// From the first unlock after the device has started.
    case completeUntilFirstUserAuthentication
}

/// A file system that implements protection classes itself, such as that of a simulated device.
package protocol FileProtecting: POSIXFileSystem {
    /// Sets the class of a file or directory. Entries that are created in the directory later inherit its class.
    func setProtection(_ protection: FileProtection, of path: POSIXPath) throws(FileSystemError)
}

extension FileProtection {
    /// Sets the class on a directory; no effect on a file system without classes.
    func apply(to path: POSIXPath, on fileSystem: any POSIXFileSystem) throws(FileSystemError) {
        if let fileSystem = fileSystem as? any FileProtecting {
            try fileSystem.setProtection(self, of: path)
        } else if fileSystem is SystemFileSystem {
            try applyOnSystem(to: path)
        }
    }
}
