import ForgeFileSystem
import SystemPackage

/// The names under which a store writes a file before it gives it its name. They belong to the store as `log` does, so what
/// a crash has left there can be removed; no other file of the directory is.
enum OwnFile {
    static let newLog: POSIXPath = "#log-new"
    static let newQuarantine: POSIXPath = "#quarantine-new"

    /// Creates an empty file under one of the names, in the place of what was left over there.
    static func create(
        _ name: POSIXPath, at directory: Descriptor, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> Descriptor {
        func create() throws(FileSystemError) -> Descriptor {
            try fileSystem.retryingInterrupts { () throws(FileSystemError) in
                try fileSystem.open(
                    name, at: directory, .readWrite, options: [.create, .exclusiveCreate, .noFollow],
                    permissions: .privateFile)
            }
        }
        let file: Descriptor
        do throws(FileSystemError) {
            file = try create()
        } catch  where error.errno == .fileExists {
            try fileSystem.unlink(name, at: directory)
            file = try create()
        }
        do throws(FileSystemError) {
            // Whatever the umask.
            try fileSystem.setPermissions(.privateFile, of: .descriptor(file))
        } catch {
            fileSystem.discard(file)
            // If it stays, it is removed when the store is opened next.
            do { try fileSystem.unlink(name, at: directory) } catch _ {}
            throw error
        }
        return file
    }

    /// Removes what a crash has left over. What cannot be removed does no harm before the name is needed.
    static func removeLeftovers(at directory: Descriptor, on fileSystem: any POSIXFileSystem) {
        for name in [newLog, newQuarantine] {
            do { try fileSystem.unlink(name, at: directory) } catch _ {}
        }
    }
}
