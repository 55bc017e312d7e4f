import ForgeStorage
import SystemPackage

/// A directory that is filled under a temporary name and renamed into place when it is complete.
///
/// The temporary name is that of the destination with a dot before it and `.partial` behind it. What an interrupted
/// process left there is removed by the next one.
final class StagedDirectory {
    private let fileSystem = SystemFileSystem()
    private let destination: POSIXPath
    private let lock: Descriptor
    /// Whether this object has to remove the directory.
    private var isOwned = false

    /// The path under the temporary name.
    let path: POSIXPath

    /// Creates the directory.
    ///
    /// - Parameter destination: Where it will be: nothing, or an empty directory.
    /// - Throws: ``CommandFailure`` if something else is there, or if another process fills the same directory.
    init(for destination: POSIXPath) throws {
        self.destination = destination
        let (parent, name) = destination.splitLast()
        let temporary = POSIXPath(Array(".".utf8) + name.bytes + Array(".partial".utf8))
        path = parent.isEmpty ? temporary : parent.appending(temporary)
        try Self.requireFree(destination, on: fileSystem)
        if !parent.isEmpty { try fileSystem.makeDirectories(parent) }
        try Self.removeLeftover(path, on: fileSystem)
        try fileSystem.createDirectory(path, permissions: .ownerReadWriteExecute)
        lock = try fileSystem.open(path, .readOnly, options: [.directory])
        do throws(FileSystemError) {
            try fileSystem.lock(lock, .exclusive, waiting: false)
        } catch {
            guard error.errno == .resourceTemporarilyUnavailable else { throw error }
            throw CommandFailure("another process is writing \(path)", .inUse)
        }
        isOwned = true
    }

    deinit {
        if isOwned {
            // The failure is reported already; the next attempt removes what remains.
            do { try fileSystem.removeTree(path) } catch _ {}
        }
        fileSystem.discard(lock)
    }

    /// Renames the directory to the destination, durably. Everything in it has to be durable by then.
    func place() throws {
        do throws(FileSystemError) {
            try fileSystem.removeDirectory(destination)
        } catch {
            guard error.errno == .noSuchFileOrDirectory else { throw error }
        }
        try fileSystem.synchronize(lock, .full)
        do throws(FileSystemError) {
            try fileSystem.rename(path, to: destination, .exclusive)
        } catch {
            // Some network file systems have no exclusive rename; the other replaces no directory that is not empty.
            guard error.errno.isMissingFeature else { throw error }
            try fileSystem.rename(path, to: destination, .replacing)
        }
        isOwned = false
        try fileSystem.synchronizeParent(of: destination)
    }

    private static func requireFree(_ path: POSIXPath, on fileSystem: SystemFileSystem) throws {
        do throws(FileSystemError) {
            let isEmpty = try fileSystem.withDirectory(path) { (directory) throws(FileSystemError) in
                try fileSystem.entries(of: directory).isEmpty
            }
            guard isEmpty else { throw FileSystemError(.open, .directoryNotEmpty, path: path) }
        } catch {
            switch error.errno {
            case .noSuchFileOrDirectory: return
            case .directoryNotEmpty, .notDirectory: throw CommandFailure("\(path) exists already; it was left as it is")
            default: throw error
            }
        }
    }

    private static func removeLeftover(_ path: POSIXPath, on fileSystem: SystemFileSystem) throws {
        let directory: Descriptor
        do throws(FileSystemError) {
            directory = try fileSystem.open(path, .readOnly, options: [.directory, .noFollow])
        } catch {
            guard error.errno == .noSuchFileOrDirectory else { throw error }
            return
        }
        defer { fileSystem.discard(directory) }
        do throws(FileSystemError) {
            try fileSystem.lock(directory, .exclusive, waiting: false)
        } catch {
            guard error.errno == .resourceTemporarilyUnavailable else { throw error }
            throw CommandFailure("another process is writing \(path)", .inUse)
        }
        try fileSystem.removeTree(path)
    }
}
