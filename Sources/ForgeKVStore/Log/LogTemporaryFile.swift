import ForgeFileSystem
import SystemPackage

/// The names under which a store writes a file before it gives it its name. They belong to the store as `log` does, so
/// what a crash has left there can be removed; no other file of the directory is.
enum LogTemporaryFile {
    static let newLog: POSIXPath = "#log-new"
    static let newQuarantine: POSIXPath = "#quarantine-new"

    /// Creates an empty file under one of the names, in the place of what was left over there.
    static func create(
        _ name: POSIXPath, at directory: Descriptor, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> Descriptor {
        do throws(FileSystemError) {
            return try fileSystem.createStoreFile(name, at: directory)
        } catch {
            guard error.errno == .fileExists else { throw error }
        }
        try fileSystem.unlink(name, at: directory)
        return try fileSystem.createStoreFile(name, at: directory)
    }

    /// Removes what a crash has left over. What cannot be removed does no harm before the name is needed.
    static func removeLeftovers(at directory: Descriptor, on fileSystem: any POSIXFileSystem) {
        for name in [newLog, newQuarantine] {
            do { try fileSystem.unlink(name, at: directory) } catch _ {}
        }
    }
}
