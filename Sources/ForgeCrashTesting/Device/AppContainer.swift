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

    /// The directory of all containers, whose names the system keeps durable.
    private static let parent: POSIXPath = "/var/mobile/Containers/Data/Application"

    /// The container of the app group, which updates of the app do not move.
    static let group: POSIXPath = "/var/mobile/Containers/Shared/AppGroup/1"

    var path: POSIXPath { Self.parent.appending(POSIXPath("\(number)")) }

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
        try disk.makeDirectories(Self.group)
    }

    /// Gives the container of an updated app a new path.
    mutating func move(on disk: InMemoryFileSystem) throws(FileSystemError) {
        let old = path
        number += 1
        try disk.rename(old, to: path)
        try disk.withDirectory(Self.parent) { (descriptor) throws(FileSystemError) in
            try disk.synchronize(descriptor, .full)
        }
    }

    static func empty(_ directory: POSIXPath, on disk: InMemoryFileSystem) throws(FileSystemError) {
        try disk.withDirectory(directory) { (descriptor) throws(FileSystemError) in
            for entry in try disk.entries(of: descriptor) { try disk.removeEntry(entry.name, at: descriptor) }
        }
    }
}
