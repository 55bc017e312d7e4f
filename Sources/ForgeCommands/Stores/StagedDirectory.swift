import ForgeStorage
import SystemPackage

/// A directory that is filled beside its destination and renamed into place when it is complete.
///
/// It is `.NAME.partial/new` for the destination `NAME`. The file `forge-unfinished` beside it, flushed before
/// anything else is written, proves that `.NAME.partial` was created here. What an interrupted process has left is
/// removed only with that proof, and only if nothing else is in `.NAME.partial`. Links are not followed.
final class StagedDirectory {
    /// The name of the file that marks the directory.
    static let markerName: POSIXPath = "forge-unfinished"
    /// The name of the directory that is renamed to the destination.
    static let contentName: POSIXPath = "new"
    private static let marker = Array("forge: unfinished backup or restore, removed by the next\n".utf8)

    private let fileSystem = SystemFileSystem()
    private let destination: POSIXPath
    /// The path of the marked directory.
    private let outer: POSIXPath
    /// The marked directory, locked.
    private let directory: Descriptor
    /// Whether the marked directory is proven to be one of this type, which `deinit` may remove.
    private var isOwned = false

    /// The path of the directory that is filled.
    let path: POSIXPath

    /// Creates the directory, and removes what an interrupted process has left there.
    ///
    /// - Parameters:
    ///   - destination: The final, absolute path, which must not exist or must be an empty directory, and must not be
    ///     in the directory of a store.
    ///   - inputs: Directories that are read: none of them may be in the directory that is filled.
    /// - Throws: ``CommandFailure``, with nothing changed, if the destination or the temporary name is something else,
    ///   or if another process fills the same directory. `FileSystemError`.
    init(for destination: POSIXPath, keeping inputs: [POSIXPath]) throws {
        self.destination = destination
        let (parent, name) = destination.splitLast()
        let temporary = POSIXPath(Array(".".utf8) + name.bytes + Array(".partial".utf8))
        outer = parent.appending(temporary)
        path = outer.appending(Self.contentName)
        try requireNoStore(at: destination, destination.shown)
        try Self.requireFree(destination, on: fileSystem)
        for input in inputs where Ancestry(of: outer).contains(Ancestry(of: input)) {
            throw CommandFailure("\(input.shown) is in \(outer.shown), which an unfinished run would use", .usage)
        }
        try fileSystem.makeDirectories(parent)
        directory = try Self.opened(outer, on: fileSystem)
        // An error from here on runs `deinit`.
        try Self.lock(directory, outer, on: fileSystem)
        try prepare()
    }

    deinit {
        if isOwned { remove() }
        fileSystem.discard(directory)
    }

    /// Removes the marked directory. An error is not reported: the next process removes what remains, because the
    /// marker is removed after the rest.
    private func remove() {
        do {
            try removeContent()
            try fileSystem.unlink(Self.markerName, at: directory)
            try fileSystem.removeDirectory(outer)
        } catch _ {}
    }

    private func removeContent() throws(FileSystemError) {
        do {
            try fileSystem.removeEntry(Self.contentName, at: directory)
        } catch  where error.errno == .noSuchFileOrDirectory {}
    }

    /// Renames the directory to the destination durably. A rename replaces only an empty directory.
    ///
    /// - Precondition: All files in the directory are durable.
    /// - Throws: `FileSystemError`.
    func place() throws {
        try fileSystem.withDirectory(path) { (content) throws(FileSystemError) in
            try fileSystem.synchronize(content, .full)
        }
        try fileSystem.rename(path, to: destination, .replacing)
        try fileSystem.synchronizeParent(of: destination)
        remove()
    }

    // MARK: Preparation

    private static func requireFree(_ path: POSIXPath, on fileSystem: SystemFileSystem) throws {
        do {
            // What is put in the place of the destination is renamed, so it has to be on the device of its parent.
            let status = try fileSystem.status(path, followsSymbolicLinks: false)
            if status.type == .symbolicLink {
                throw CommandFailure("\(path.shown) is a symbolic link; give the path that it leads to")
            }
            let (parent, name) = path.splitLast()
            let directory = try fileSystem.openDirectory(parent)
            defer { fileSystem.discard(directory) }
            let isMountPoint =
                try fileSystem.status(of: .descriptor(directory)).device != status.device
                || fileSystem.isMountPoint(name, at: directory)
            if isMountPoint { throw CommandFailure("\(path.shown) is a mount point; give a directory in it") }
        } catch let error as FileSystemError where [.noSuchFileOrDirectory, .notDirectory].contains(error.errno) {
            // The error of a parent that is a file is reported below.
        }
        do throws(FileSystemError) {
            guard try fileSystem.entries(ofDirectory: path).isEmpty else {
                throw FileSystemError(.open, .directoryNotEmpty, path: path)
            }
        } catch {
            switch error.errno {
            case .noSuchFileOrDirectory: return
            case .directoryNotEmpty, .notDirectory:
                throw CommandFailure("\(path.shown) exists already; it was left as it is")
            default: throw error
            }
        }
    }

    private static func foreign(_ path: POSIXPath) -> CommandFailure {
        CommandFailure(
            "\(path.shown) exists and is not what an interrupted run has left; it was left as it is")
    }

    /// Opens the directory that is marked; creates it if nothing has its name.
    private static func opened(_ path: POSIXPath, on fileSystem: SystemFileSystem) throws -> Descriptor {
        do throws(FileSystemError) {
            try fileSystem.createDirectory(path, at: .workingDirectory, exactly: .ownerReadWriteExecute)
        } catch  where error.errno == .fileExists {}
        do throws(FileSystemError) {
            return try fileSystem.open(path, .readOnly, options: [.directory, .noFollow])
        } catch  where FileTarget.isTaken(error) {
            throw foreign(path)
        }
    }

    private static func lock(_ directory: Descriptor, _ path: POSIXPath, on fileSystem: SystemFileSystem) throws {
        var isHeld = false
        do throws(FileSystemError) {
            try fileSystem.lock(directory, .exclusive, waiting: false)
            // Another process may have finished, and removed this directory, before the lock.
            let named = try fileSystem.status(path, followsSymbolicLinks: false)
            isHeld = try DirectoryIdentity(fileSystem.status(of: .descriptor(directory))) == DirectoryIdentity(named)
        } catch {
            guard [.resourceTemporarilyUnavailable, .noSuchFileOrDirectory].contains(error.errno) else { throw error }
        }
        guard isHeld else { throw CommandFailure("another process is writing \(path.shown)", .inUse) }
    }

    /// Removes what an interrupted process has left, marks the directory durably, and creates the one that is filled.
    private func prepare() throws {
        let names = Set(try fileSystem.entries(of: directory).map(\.name))
        guard names.isSubset(of: [Self.markerName, Self.contentName]) else { throw Self.foreign(outer) }
        let isMarked = try isMarked(besides: names)
        isOwned = true
        if !isMarked {
            // An empty directory, as a process that was interrupted between two calls leaves it.
            try fileSystem.setPermissions(.ownerReadWriteExecute, of: .descriptor(directory))
            let marker = try fileSystem.openPrivateFile(Self.markerName, at: directory)
            try fileSystem.closing(marker) { () throws(FileSystemError) in
                try fileSystem.writeBytes(Self.marker, to: marker)
                try fileSystem.synchronize(marker, .full)
            }
            try fileSystem.synchronize(directory, .full)
        }
        try removeContent()
        try fileSystem.createDirectory(Self.contentName, at: directory, exactly: .ownerReadWriteExecute)
    }

    /// Whether the directory has the marker; the beginning of one, alone, is removed.
    ///
    /// - Throws: ``CommandFailure`` if the directory has other files.
    private func isMarked(besides names: Set<POSIXPath>) throws -> Bool {
        guard names.contains(Self.markerName) else {
            guard names.isEmpty else { throw Self.foreign(outer) }
            return false
        }
        let status = try fileSystem.status(Self.markerName, at: directory, followsSymbolicLinks: false)
        guard status.type == .regular, status.sizeInBytes <= Self.marker.count else { throw Self.foreign(outer) }
        let content = try fileSystem.start(of: Self.markerName, at: directory)
        if content == Self.marker { return true }
        guard names.count == 1, Self.marker.starts(with: content) else { throw Self.foreign(outer) }
        try fileSystem.unlink(Self.markerName, at: directory)
        return false
    }
}
