import ForgeFileSystem
import Foundation
import SystemPackage

extension Error {
    /// Whether the error means that the file is missing; nil for an error of an unknown type or domain.
    ///
    /// A custom file system may throw any error. On nil, callers fall back to `fileExists(atPath:)`, which is less
    /// reliable: `false` may also mean that the path could not be inspected.
    var indicatesMissingFile: Bool? {
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
