#if os(Linux)
import Glibc
import SystemPackage

/// A directory where the kernel shows what a server answers.
struct KernelMount {
    let directory: String

    private static let noSetUserID: UInt = 2
    private static let noDevices: UInt = 4
    private static let detach: CInt = 2

    /// Mounts.
    ///
    /// - Parameters:
    ///   - device: Where the server answers.
    ///   - directory: Where to mount.
    ///   - kernelChecksPermissions: Whether the kernel checks permissions before it asks the server, which does anyway.
    ///     Without that the kernel asks the server by `open`, `create` and `access`, but not everything takes one of
    ///     them: a FIFO it opens itself once it has its attributes, and steps up to `..` likewise (`fuse_permission` of
    ///     Linux looks at a mode only for executing). The protocol has no request that a server could refuse then, so
    ///     only the kernel's own check keeps a FIFO from being opened.
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
    ///   - directory: Where the file system is mounted.
    ///   - isLazy: Whether the name may go at once and the rest when nobody uses it any more; otherwise `EBUSY`.
    /// - Throws: The error number; what was mounted still is.
    static func unmount(_ directory: String, isLazy: Bool) throws(Errno) {
        guard umount2(directory, isLazy ? detach : 0) == 0 else { throw Errno(rawValue: errno) }
    }
}
#endif
