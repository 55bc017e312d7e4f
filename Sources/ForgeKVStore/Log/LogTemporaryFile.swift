import ForgeFileSystem
import SystemPackage

/// The temporary names a store writes to before it renames the file into place. A store may remove these two after a
/// crash, and no other file.
enum LogTemporaryFile {
    static let newLog: POSIXPath = "#log-new"
    static let newQuarantine: POSIXPath = "#quarantine-new"

    /// Creates an empty file under one of the names, replacing a leftover.
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

    /// Removes leftovers of a crash. ``create(_:at:on:)`` reports a failure when the name is needed.
    static func removeLeftovers(at directory: Descriptor, on fileSystem: any POSIXFileSystem) {
        for name in [newLog, newQuarantine] {
            do { try fileSystem.unlink(name, at: directory) } catch _ {}
        }
    }
}
