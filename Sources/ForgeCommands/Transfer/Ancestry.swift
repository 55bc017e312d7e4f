import ForgeStorage
import SystemPackage

/// A directory and its ancestors, identified by device and inode, so that links and bind mounts do not hide them.
struct Ancestry {
    /// The directory; nil if it does not exist.
    private let directory: DirectoryIdentity?
    /// The directory, or the nearest one on its path that exists, and those above it.
    private let line: [DirectoryIdentity]

    /// - Parameter path: An absolute path.
    init(of path: POSIXPath) {
        directory = Self.identity(of: path)
        var current = path
        var line: [DirectoryIdentity] = []
        while Self.identity(of: current) == nil, !current.isEmpty { current = current.splitLast().parent }
        while let identity = Self.identity(of: current), identity != line.last {
            line.append(identity)
            current = current.appending("..")
        }
        self.line = line
    }

    /// Whether another directory is this one or below it.
    func contains(_ other: Ancestry) -> Bool { directory.map(other.line.contains) ?? false }

    /// The identity of a directory; nil if it cannot be found.
    static func identity(of path: POSIXPath) -> DirectoryIdentity? {
        do throws(FileSystemError) {
            return DirectoryIdentity(try SystemFileSystem().status(path))
        } catch {
            return nil
        }
    }
}
