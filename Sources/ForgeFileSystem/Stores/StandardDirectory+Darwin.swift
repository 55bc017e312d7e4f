#if canImport(Darwin)
import Foundation
import SystemPackage

extension StandardDirectory {
    /// The path of the directory for this process.
    package func path() throws(FileSystemError) -> POSIXPath {
        let kind: FileManager.SearchPathDirectory =
            switch self {
            case .documents: .documentDirectory
            case .applicationSupport: .applicationSupportDirectory
            case .caches: .cachesDirectory
            }
        guard let url = FileManager.default.urls(for: kind, in: .userDomainMask).first else {
            throw FileSystemError(.open, .noSuchFileOrDirectory)
        }
        return try POSIXPath(url)
    }
}
#endif
