#if os(Linux)
import Glibc
import SystemPackage

/// A directory where the kernel shows what a server answers.
struct KernelMount {
    let directory: String

    private static let noSetUserID: UInt = 2
    private static let noDevices: UInt = 4
    private static let detach: CInt = 2

    /// Mounts; without `default_permissions`, so that the server checks permissions and not the kernel.
    init(_ device: FUSEDevice, at directory: String) throws(Errno) {
        self.directory = directory
        let options = "fd=\(device.descriptor),rootmode=40000,user_id=0,group_id=0,allow_other"
        let result = options.withCString { options in
            mount("forge", directory, "fuse.forge", Self.noSetUserID | Self.noDevices, options)
        }
        guard result == 0 else { throw Errno(rawValue: errno) }
    }

    /// Unmounts.
    ///
    /// - Parameters:
    ///   - directory: Where the file system is mounted.
    ///   - isLazy: Whether the name may go at once and the rest when nobody uses it any more; otherwise `EBUSY`.
    /// - Throws: The error number; what was mounted still is.
    static func unmount(_ directory: String, isLazy: Bool) throws(Errno) {
        guard umount2(directory, isLazy ? detach : 0) == 0 else { throw Errno(rawValue: errno) }
    }
}
#endif
