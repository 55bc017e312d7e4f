import ForgeFileSystem

#if canImport(Darwin)
import Foundation
import SystemPackage
#endif

#if canImport(Darwin)
extension FileProtection {
    /// Sets the class on a directory of this device.
    func applyOnSystem(to path: POSIXPath) throws(FileSystemError) {
        let attribute: FileProtectionType =
            switch self {
            case .none: .none
            case .complete: .complete
            case .completeUnlessOpen: .completeUnlessOpen
            case .completeUntilFirstUserAuthentication: .completeUntilFirstUserAuthentication
            }
        do {
            try FileManager.default.setAttributes([.protectionKey: attribute], ofItemAtPath: String(path))
        } catch {
            throw FileSystemError(.setPermissions, Errno(ofFoundation: error), path: path, underlying: error)
        }
    }
}
#else
extension FileProtection {
    /// Does nothing: this platform has no protection classes.
    func applyOnSystem(to path: POSIXPath) throws(FileSystemError) {}
}
#endif
