import ForgeStorage
import Foundation
import Synchronization
import SystemPackage

/// A directory on disk created for one run and removed with it.
final class LabDirectory: Sendable {
    let url: URL
    private let count = Mutex(0)

    /// A new directory in `parent`, by default in the temporary directory.
    init(in parent: String?) throws {
        let parent =
            parent.map { URL(fileURLWithPath: $0, isDirectory: true) } ?? FileManager.default.temporaryDirectory
        url = parent.resolvingSymlinksInPath()
            .appending(component: "forge-lab-\(UUID().uuidString)", directoryHint: .isDirectory)
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    /// The URL of a new entry, which does not exist yet.
    func next() -> URL {
        let number = count.withLock { count in
            count += 1
            return count
        }
        return url.appending(component: "\(number)", directoryHint: .isDirectory)
    }

    /// The path of a new, empty subdirectory.
    func nextDirectory() throws -> POSIXPath {
        let path = try POSIXPath(next())
        try SystemFileSystem().createDirectory(path, permissions: FilePermissions(rawValue: 0o755))
        return path
    }

    /// The umask of this process, derived from a new file: `umask(2)` would change it briefly.
    func umask() throws -> FilePermissions {
        let everything = FilePermissions(rawValue: 0o777)
        let fileSystem = SystemFileSystem()
        let probe = try POSIXPath(url).appending("umask")
        try fileSystem.close(try fileSystem.open(probe, .writeOnly, options: [.create], permissions: everything))
        let granted = try fileSystem.status(probe).permissions
        try fileSystem.unlink(probe)
        return everything.subtracting(granted)
    }

    func remove() {
        do {
            try FileManager.default.removeItem(at: url)
        } catch {
            FileHandle.standardError.write(Data("cannot remove \(url.path): \(error)\n".utf8))
        }
    }
}
