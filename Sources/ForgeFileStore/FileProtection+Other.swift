#if !canImport(Darwin)
import ForgeFileSystem

extension FileProtection {
    /// Does nothing: there are no classes of protection here.
    func apply(to path: POSIXPath) throws(FileSystemError) {}
}
#endif
