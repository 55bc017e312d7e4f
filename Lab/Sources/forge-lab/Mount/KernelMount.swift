#if os(Linux)
import Glibc
import SystemPackage

/// A directory at which the kernel shows a server's file system.
struct KernelMount {
    let directory: String

    private static let noSetUserID: UInt = 2
    private static let noDevices: UInt = 4
    private static let detach: CInt = 2

    /// Mounts.
    ///
    /// - Parameters:
    ///   - device: The device of the server.
    ///   - directory: The mount point.
    ///   - kernelChecksPermissions: Whether the kernel checks permissions before the server does. Otherwise the server
    ///     checks them on `open`, `create` and `access`, but the kernel opens a FIFO and resolves `..` without such a
    ///     request (`fuse_permission` of Linux checks a mode only for executing), so that only the kernel's own check
    ///     protects a FIFO.
    /// - Throws: The error number; nothing is mounted.
    init(_ device: FUSEDevice, at directory: String, kernelChecksPermissions: Bool) throws(Errno) {
        self.directory = directory
        let options =
            "fd=\(device.descriptor),rootmode=40000,user_id=0,group_id=0,allow_other"
            + (kernelChecksPermissions ? ",default_permissions" : "")
        let result = options.withCString { options in
            mount("forge", directory, "fuse.forge", Self.noSetUserID | Self.noDevices, options)
        }
        guard result == 0 else { throw Errno(rawValue: errno) }
    }

    /// Unmounts.
    ///
    /// - Parameters:
    ///   - directory: The mount point.
    ///   - isLazy: Whether to detach the mount point at once and unmount when the file system is no longer in use;
    ///     otherwise a file system in use fails with `EBUSY`.
    /// - Throws: The error number; the file system stays mounted.
    static func unmount(_ directory: String, isLazy: Bool) throws(Errno) {
        guard umount2(directory, isLazy ? detach : 0) == 0 else { throw Errno(rawValue: errno) }
    }
}
#endif
