#if !canImport(Darwin)
import ForgeFileSystem

extension FileProtection {
    /// Does nothing: there are no classes of protection here.
    func applyOnSystem(to path: POSIXPath) throws(FileSystemError) {}
}
#endif
