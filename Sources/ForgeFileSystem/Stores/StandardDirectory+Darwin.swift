#if canImport(Darwin)
import Foundation

extension StandardDirectory {
    /// The path of the directory for this process.
    package func path() throws(FileSystemError) -> POSIXPath {
        switch self {
        case .documents: try POSIXPath(URL.documentsDirectory)
        case .applicationSupport: try POSIXPath(URL.applicationSupportDirectory)
        case .caches: try POSIXPath(URL.cachesDirectory)
        }
    }
}
#endif
