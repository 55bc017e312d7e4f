import ForgeFileStore
import ForgeFileSystem

/// The directories of an app on a simulated device, below a container that every installation creates.
struct AppContainer: Hashable, Sendable {
    /// The number of the installation, counted from 1.
    var number = 1

    /// The directories that the system creates with the container, parents first.
    private static let directories: [POSIXPath] = [
        "Documents", "Library", "Library/Application Support", "Library/Caches", "tmp",
    ]

    /// The directories that backups omit.
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
        // The system makes the directories of an installed app durable.
        for directory in Self.directories { try disk.makeDirectories(path.appending(directory)) }
    }

    func empty(_ directory: StandardDirectory, on disk: InMemoryFileSystem) throws(FileSystemError) {
        try disk.withDirectory(path(of: directory)) { (descriptor) throws(FileSystemError) in
            for entry in try disk.entries(of: descriptor) { try disk.removeEntry(entry.name, at: descriptor) }
        }
    }
}
