import ForgeFileStore
import ForgeFileSystem

/// The directories of an app on a simulated device, below a container that every installation creates.
struct AppContainer: Hashable, Sendable {
    /// Counted from 1.
    var number = 1

    /// What is created with the container, parents first.
    private static let directories: [POSIXPath] = [
        "Documents", "Library", "Library/Application Support", "Library/Caches", "tmp",
    ]

    /// Whose contents are in no backup.
    static let withoutBackup: [POSIXPath] = ["Library/Caches", "tmp"]

    var path: POSIXPath { POSIXPath("/var/mobile/Containers/Data/Application/\(number)") }

    func path(of directory: StandardDirectory) -> POSIXPath {
        switch directory {
        case .documents: path.appending("Documents")
        case .applicationSupport: path.appending("Library/Application Support")
        case .caches: path.appending("Library/Caches")
        }
    }

    func create(on disk: InMemoryFileSystem) throws(FileSystemError) {
        // Durable, as everything that the system does to install an app.
        for directory in Self.directories { try disk.makeDirectories(path.appending(directory)) }
    }

    func empty(_ directory: StandardDirectory, on disk: InMemoryFileSystem) throws(FileSystemError) {
        try disk.withDirectory(path(of: directory)) { (descriptor) throws(FileSystemError) in
            for entry in try disk.entries(of: descriptor) { try disk.removeEntry(entry.name, at: descriptor) }
        }
    }
}
