import Synchronization
import SystemPackage

/// The root directory of a store that keeps one file for each key: the only way such a store reaches the disk.
///
/// The root is held open, and every key is walked from it without following a link or leaving it, so nothing outside
/// can be reached whatever happens to the tree meanwhile. Files are 0600 and directories 0700.
package final class StoreDirectory: Sendable {
    /// The file system that holds the store.
    package let fileSystem: any POSIXFileSystem

    /// Where the root is.
    package let path: POSIXPath

    let root: Descriptor
    private let lock: StoreLock?
    let settled = Mutex(SettledDirectories())

    /// How keys are walked.
    static let resolution: PathResolution = [.beneath, .noSymbolicLinks]

    /// Opens the store's root, creating it durably if it is missing, and sweeps what a crash left over.
    ///
    /// Leftovers are swept only while no other object, in any process, has the store open.
    package init(_ path: POSIXPath, on fileSystem: any POSIXFileSystem) throws(FileSystemError) {
        try fileSystem.makeDirectories(path, permissions: .privateDirectory)
        let root = try fileSystem.open(
            path, at: .workingDirectory, .readOnly, options: [.directory], permissions: [], resolution: [])
        self.fileSystem = fileSystem
        self.path = path
        self.root = root
        do throws(FileSystemError) {
            lock = try Self.sweepIfAlone(root, on: fileSystem)
        } catch {
            fileSystem.discard(root)
            throw error
        }
    }

    deinit {
        fileSystem.discard(root)
    }

    /// Whether somebody removed the root while it was open here; whatever is stored after that is lost.
    package func isRemoved() throws(FileSystemError) -> Bool {
        try fileSystem.status(of: .descriptor(root)).linkCount == 0
    }

    private static func sweepIfAlone(
        _ root: Descriptor, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> StoreLock? {
        let lock: StoreLock
        do throws(FileSystemError) {
            lock = try StoreLock(.exclusive, at: root, on: fileSystem)
        } catch  where error.operation == .lock && error.errno == .resourceTemporarilyUnavailable {
            // Others use the store, or one of them is just sweeping it.
            return try StoreLock(.shared, waiting: true, at: root, on: fileSystem)
        } catch  where error.errno == .readOnlyFileSystem || error.errno.isRefusal {
            return nil  // A store that can only be read keeps its leftovers.
        }
        try sweep(root, depth: 0, on: fileSystem)
        try lock.share()
        return lock
    }

    /// Removes leftovers; what may not be looked at or removed stays, and does not keep the store from opening.
    private static func sweep(
        _ directory: Descriptor, depth: Int, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) {
        for entry in try fileSystem.entries(of: directory) {
            do throws(FileSystemError) {
                if entry.name.isLeftover {
                    try fileSystem.removeEntry(entry.name, at: directory)
                } else if entry.type == .directory, depth < RelativeKey.maximumDepth {
                    try fileSystem.withDirectory(entry.name, at: directory, resolution: resolution) {
                        (below) throws(FileSystemError) in
                        try sweep(below, depth: depth + 1, on: fileSystem)
                    }
                }
            } catch  where error.errno.isRefusal || error.errno.isDisappearance {
                continue
            }
        }
    }
}

/// The directories whose own names are known to be durable, each with its inode, which a successor cannot have while
/// the directory is still being deleted.
struct SettledDirectories {
    private var inodes: [POSIXPath: UInt64] = [:]

    func contains(_ path: POSIXPath, _ inode: UInt64) -> Bool { inodes[path] == inode }

    mutating func insert(_ path: POSIXPath, _ inode: UInt64) {
        if inodes.count >= 4096 { inodes.removeAll() }  // To forget costs one flush, to remember costs memory.
        inodes[path] = inode
    }

    mutating func removeAll() {
        inodes.removeAll()
    }
}

extension Errno {
    /// Whether the caller may not do this.
    package var isRefusal: Bool { self == .permissionDenied || self == .notPermitted }

    /// Whether what a listing has just shown is gone or has become something else.
    package var isDisappearance: Bool {
        self == .noSuchFileOrDirectory || self == .notDirectory || self == .tooManySymbolicLinkLevels
    }
}
