#if !canImport(Darwin)
import ForgeFileSystem

extension FileProtection {
    /// Does nothing: this platform has no protection classes.
    func applyOnSystem(to path: POSIXPath) throws(FileSystemError) {}
}
#endif
