import Synchronization
import SystemPackage

/// A directory whose tree is accessed without following links and without leaving it, even while other programs change
/// the tree.
///
/// Links on the path of the directory itself are followed once, when the object is created; the object then keeps that
/// directory. If the path had no link, and the system can refuse links, each call opens the directory that is at the path
/// at that time, and throws `ELOOP` if that leads through a link to another directory.
package final class ConfinedDirectory: Sendable {
    /// The file system of the directory.
    package let fileSystem: any POSIXFileSystem

    /// The path of the directory as it was given.
    package let path: POSIXPath

    private let held: Mutex<OpenDirectory>

    /// Whether a directory that has taken the path is opened instead of the held one.
    private let isReopened: Bool

    private static let resolution: PathResolution = [.beneath, .noSymbolicLinks]

    /// Opens a directory.
    ///
    /// - Throws: ``FileSystemError`` if the path does not exist, is not a directory or cannot be opened.
    package init(
        _ path: POSIXPath, on fileSystem: any POSIXFileSystem = SystemFileSystem()
    ) throws(FileSystemError) {
        self.path = path
        self.fileSystem = fileSystem
        do throws(FileSystemError) {
            held = Mutex(try OpenDirectory(path, resolution: .noSymbolicLinks, on: fileSystem))
            isReopened = true
        } catch  where error.errno == .tooManySymbolicLinkLevels || error.errno.isMissingResolution {
            held = Mutex(try OpenDirectory(path, on: fileSystem))
            isReopened = false
        }
    }

    /// The directory at the path now; the held one if the path contained a link, or if the system cannot refuse links.
    private func current() throws(FileSystemError) -> OpenDirectory {
        let held = self.held.withLock { $0 }
        guard isReopened else { return held }
        // A link on the path is harmless if it leads to the held directory; otherwise opening refuses it.
        if held.identity == DirectoryIdentity(try fileSystem.status(path)) { return held }
        let new = try OpenDirectory(path, resolution: .noSymbolicLinks, on: fileSystem)
        self.held.withLock { $0 = new }
        return new
    }

    /// Opens a directory below this one, for the caller to close; `.` is this directory.
    ///
    /// - Throws: ``FileSystemError``: `ELOOP` if a link is on the path, `EXDEV` for a path that leads outside.
    package func open(_ path: POSIXPath) throws(FileSystemError) -> Descriptor {
        try current().use { (directory) throws(FileSystemError) in
            try fileSystem.open(
                path, at: directory, .readOnly, options: [.directory], permissions: [], resolution: Self.resolution)
        }
    }

    /// Opens the parent directory of a path below this one, for the caller to close.
    ///
    /// - Returns: The directory, and the name in it.
    /// - Throws: ``FileSystemError`` as ``open(_:)``.
    package func openParent(of path: POSIXPath) throws(FileSystemError) -> (directory: Descriptor, name: POSIXPath) {
        let (parent, name) = path.splitLast()
        return (try open(parent.isEmpty ? "." : parent), name)
    }
}

extension POSIXFileSystem {
    /// Opens a file in an open directory for reading, if it is a regular file.
    ///
    /// Other types are not opened: opening a FIFO affects its writers, and opening a device may have any effect.
    ///
    /// - Returns: The file, for the caller to close, and its status.
    /// - Throws: ``FileSystemError``: `ENOTSUP` for a file of another type.
    package func openRegularFile(
        _ name: POSIXPath, at directory: Descriptor
    ) throws(FileSystemError) -> (descriptor: Descriptor, status: FileStatus) {
        guard try status(name, at: directory, followsSymbolicLinks: false).type == .regular else {
            throw FileSystemError(.open, .notSupported, path: name)
        }
        // Another file may have taken the name meanwhile; without nonBlocking, opening a FIFO would block.
        let descriptor = try open(name, at: directory, .readOnly, options: [.noFollow, .nonBlocking])
        do throws(FileSystemError) {
            let status = try status(of: .descriptor(descriptor))
            guard status.type == .regular else { throw FileSystemError(.open, .notSupported, path: name) }
            return (descriptor, status)
        } catch {
            discard(descriptor)
            throw error
        }
    }
}

extension Errno {
    /// Whether restricted path resolution is unavailable: an old kernel, or a sandbox that refuses the call.
    fileprivate var isMissingResolution: Bool {
        self == .noFunction || self == .notPermitted || self == .notSupported
    }
}
