import ForgeFileSystem
import Foundation
import SystemPackage

extension Error {
    /// Whether a file system's error says that the file is missing; nil if it is of a kind that does not tell.
    ///
    /// A file system of the app's own may throw anything. Whoever gets nil asks `fileExists(atPath:)`, which is second
    /// best, since its `false` may also mean that the path could not be looked at.
    var saysMissing: Bool? {
        if let error = self as? FileSystemError, error.underlying == nil {
            return error.errno == .noSuchFileOrDirectory
        }
        // By domain: on Linux a cast to CocoaError or POSIXError succeeds for an error of any domain.
        let error = self as NSError
        switch error.domain {
        case NSCocoaErrorDomain:
            return error.code == CocoaError.Code.fileNoSuchFile.rawValue
                || error.code == CocoaError.Code.fileReadNoSuchFile.rawValue
        case NSPOSIXErrorDomain:
            return error.code == Int(Errno.noSuchFileOrDirectory.rawValue)
        default:
            return nil
        }
    }
}
