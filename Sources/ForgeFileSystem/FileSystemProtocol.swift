public import Foundation
package import SystemPackage

/// The six file operations of apps that store files.
///
/// Code that stores files takes any `FileSystemProtocol`: ``SystemFileSystem`` in the app, ``InMemoryFileSystem`` in
/// its tests, or a type of the app's own. The six calls are the only requirements; the suite
/// `ConformanceSuite.fileOperations` of the product `ForgeStorageTesting` checks what is promised here.
///
/// A file URL is interpreted byte for byte: `~`, `+` and spaces are ordinary bytes of names, and a percent escape is
/// decoded exactly once. `..` is resolved by the file system after the links before it (`path_resolution(7)`), never in
/// the text of the path, so that nothing exists at `missing/../a`; for a URL with a base an implementation may use
/// `URL.absoluteURL`, which removes `..` in the text, but those of this module do not. A final slash does not change
/// where a URL leads: `directory/` is `directory`, `file/` is `file`, and `removeItem(at:)` of `link/` removes the link.
/// The implementations of this module use the path of a file URL alone, and ignore its query and its fragment.
///
/// A URL that is not a path (another scheme, a host other than none and `localhost`, an escaped NUL or slash, an invalid
/// escape) is refused by every call with a ``FileSystemError`` whose `errno` is `EINVAL`; the type of other errors is up
/// to the implementation. A name of up to 255 bytes is accepted; one that is too long for the file system is refused.
/// At least 32 symbolic links of a path are followed (40 by Linux, 32 by Apple's systems), also several times the same
/// one: with a link `here` to `.`, `here/here/a` is `a`. Nothing exists at a path that runs into a cycle of links, and no
/// call creates anything there. An implementation keeps both promises that counts the links and has a limit.
///
/// All calls are thread-safe, and several threads may use one directory at once: no call loses or restores an entry
/// that another call changes. Of several threads that remove one item, or create one directory without its parents, one
/// succeeds.
///
/// For implementers: `POSIXPath(url)` turns a URL into the bytes of its path as described here, and throws the error for a
/// URL that is not a path, whose operation is `.resolve`. `URL(path)` makes a URL from a ``POSIXPath`` of any bytes, also
/// such that are not UTF-8. `Errno`, the type of an error's `errno`, is that of the module `SystemPackage` of the package
/// swift-system.
public protocol FileSystemProtocol: Sendable {
    /// Whether a file or a directory exists at `path`, following symbolic links.
    ///
    /// `path` is a path, not the text of a URL: percent escapes are not decoded. The path of a directory may have a
    /// final slash; nothing exists at the path of a file with one. A relative path begins at the working directory: for
    /// ``SystemFileSystem`` that of the process, for a new ``InMemoryFileSystem`` its root.
    ///
    /// `false` also if the lookup failed: in a cycle of links, below a file, for a name that is too long, for a path
    /// that is empty or contains a NUL. Where that matters, read the file and examine the error.
    func fileExists(atPath path: String) -> Bool

    /// Creates a directory.
    ///
    /// Links in the path to its parent are followed. Several threads and processes may create the same directory, or
    /// the same parents, at once.
    ///
    /// - Parameters:
    ///   - url: The directory to create. The implementations of this module take a link to a directory for one that
    ///     exists, and refuse a link to nothing.
    ///   - withIntermediateDirectories: Whether to create missing parents too; a directory that already exists is then
    ///     a success. A missing name before `..` is such a parent: `missing/../a` creates `missing` and `a`.
    /// - Throws: An error if there is no such directory afterwards, also at a file and at a link to one, or if it
    ///   existed and no parents were requested. Parents that were created before the failure are kept.
    func createDirectory(at url: URL, withIntermediateDirectories: Bool) throws

    /// Stores `data` as the whole content of the file at `url`, creating it if it is missing.
    ///
    /// The bytes are copied: the caller may reuse the memory that `data` refers to. When the call has returned or
    /// thrown, no other entry of the directory is changed or added; while it runs, a listing by another thread may have
    /// a temporary entry, which replaces none of the others.
    ///
    /// A symbolic link is followed, and each link of a chain: the content of its target is replaced, and the links are
    /// kept. Whether the target of a link to nothing is created is up to the implementation; those of this module
    /// create it.
    ///
    /// The implementations of this module replace the file atomically: a reader, and a crash, see the old content or
    /// the new, never a mixture; if the call throws, the old content is kept. So should others; where they do not, the
    /// capability `.atomicReplacement` of the checks is left out. They give a new file the mode 0600; a replaced one
    /// keeps its permissions, without the set-user-ID and set-group-ID bits.
    ///
    /// - Throws: An error also if the parent is missing, which is not created, and if `url` leads to a directory, even
    ///   an empty one.
    func write(_ data: Data, to url: URL) throws

    /// The whole content of the file at `url`, following symbolic links.
    ///
    /// The result has bytes of its own, which no later write or removal changes: a caller may keep it, and change it
    /// without changing the file. A mapping of a file that is written in place, or a buffer that the next content is stored
    /// in, does not keep this promise.
    ///
    /// Throws if nothing or a directory exists at `url`.
    ///
    /// The implementations of this module read regular files only: a FIFO, a socket or a device is refused with
    /// `ENOTSUP` without blocking.
    func read(from url: URL) throws -> Data

    /// Removes the file, or the directory with its whole tree, at `url`; a symbolic link is removed, never followed.
    ///
    /// This holds for links in the tree, for links to nothing, and for a URL of a link that has a final slash.
    ///
    /// Every other file keeps its content, also one of equal content. While a file is written in the directory, the call may
    /// throw and leave a part of the tree; once the directory is removed, the file is in none that is created later.
    ///
    /// Throws if nothing exists at `url`. Throws, and removes nothing, for the root and for a URL whose last component is
    /// `.` or `..`, also escaped (`%2E%2E`) or with slashes after it; a name such as `a.` or `etc..` is an ordinary one.
    func removeItem(at url: URL) throws

    /// The URLs of the entries of the directory at `url`, without subdirectories' entries, in no particular order.
    ///
    /// Symbolic links are followed. While entries are created and removed, each entry that stays is listed once. Throws
    /// if nothing or a file exists at `url`.
    ///
    /// Each is a file URL that leads to its entry, with the bytes of the name percent-escaped where necessary, also if
    /// they are not UTF-8. It may have a final slash or a base: compare names, not URLs.
    ///
    /// For implementers: `url` may have no final slash, but a base needs one. Relative to `file:///a/d`, `b` is
    /// `file:///a/b`, beside the directory (RFC 3986, section 5.2.3).
    func contentsOfDirectory(at url: URL) throws -> [URL]
}

/// The calls of ``FileSystemProtocol``, composed of POSIX calls, for every ``POSIXFileSystem``.
extension POSIXFileSystem {
    public func fileExists(atPath path: String) -> Bool {
        do {
            _ = try status(POSIXPath(path))
            return true
        } catch {
            return false
        }
    }

    /// Creates a directory of mode 0700, regardless of the umask, and makes its name durable; optionally with its
    /// parents.
    public func createDirectory(at url: URL, withIntermediateDirectories: Bool) throws {
        let path = try POSIXPath(url)
        guard !withIntermediateDirectories else {
            return try makeDirectories(path, permissions: .privateDirectory)
        }
        try createDirectory(path, at: .workingDirectory, exactly: .privateDirectory)
        try synchronizeParent(of: path)
    }

    public func write(_ data: Data, to url: URL) throws {
        try replaceContents(of: url, with: data)
    }

    public func read(from url: URL) throws -> Data {
        try contents(of: url)
    }

    /// Removes a file or a whole directory; the removal is durable when the call returns.
    public func removeItem(at url: URL) throws {
        let path = try POSIXPath(url)
        if try status(path, followsSymbolicLinks: false).type == .directory {
            try removeTree(path)
        } else {
            try unlink(path)
        }
        try synchronizeParent(of: path)
    }

    public func contentsOfDirectory(at url: URL) throws -> [URL] {
        let path = try POSIXPath(url)
        let entries: [DirectoryEntry]
        do throws(FileSystemError) { entries = try self.entries(ofDirectory: path) } catch { throw error.named(path) }
        return entries.map { URL(path.appending($0.name), isDirectory: $0.type == .directory) }
    }

    /// Implements `write(_:to:)`: replaces the file at `url` atomically and durably.
    ///
    /// The mode of an existing file is kept except for the set-user and set-group bits, which `write(2)` clears too:
    /// the new file belongs to the caller. A new file is 0600. A symbolic link is followed, and a file that is not
    /// regular (a device, a FIFO) is written in place.
    package func replaceContents(of url: URL, with data: Data) throws(FileSystemError) {
        try replaceContents(of: url) { (descriptor) throws(FileSystemError) in
            try withBytes(of: data) { (bytes) throws(FileSystemError) in
                try writeFully(descriptor, from: bytes)
            }
        }
    }

    /// Replaces a file like `write(_:to:)`, with the content that `content` writes to the descriptor.
    package func replaceContents(
        of url: URL, content: (Descriptor) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        let path = try followingFinalLinks(try POSIXPath(url))
        let (parent, name) = path.splitLast()
        var permissions = FilePermissions.privateFile
        do {
            let status = try status(path)
            guard status.type == .regular else { return try writeInPlace(to: path, content) }
            permissions = status.permissions.withoutSetID
        } catch  where error.errno == .noSuchFileOrDirectory {
            guard !name.isEmpty else { throw FileSystemError(.write, .noSuchFileOrDirectory, path: path) }
        }
        let directory = try openDirectory(parent.isEmpty ? "." : parent)
        defer { discard(directory) }
        do throws(FileSystemError) {
            try replaceFile(
                name, at: directory, .replacing, permissions: permissions, durability: .full, content: content)
        } catch {
            throw error.named(path)
        }
    }

    /// Implements `read(from:)`: the whole content of the regular file at `url`.
    package func contents(of url: URL) throws(FileSystemError) -> Data {
        Data(try readFile(try POSIXPath(url)))
    }

    private func writeInPlace(
        to path: POSIXPath, _ content: (Descriptor) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        let descriptor = try open(path, .writeOnly)
        do throws(FileSystemError) {
            try closing(descriptor) { () throws(FileSystemError) in try content(descriptor) }
        } catch {
            throw error.named(path)
        }
    }

    /// The target of the symbolic links at the end of `path`, whether or not it exists.
    package func followingFinalLinks(_ path: POSIXPath) throws(FileSystemError) -> POSIXPath {
        var current = path
        for _ in 0..<40 {
            let target: POSIXPath
            do {
                target = try readSymbolicLink(current)
            } catch  where [.invalidArgument, .noSuchFileOrDirectory, .notDirectory].contains(error.errno) {
                return current
            }
            let parent = current.splitLast().parent
            current = target.isAbsolute || parent.isEmpty ? target : parent.appending(target)
        }
        throw FileSystemError(.resolve, .tooManySymbolicLinkLevels, path: path)
    }
}

extension FilePermissions {
    /// `0600`.
    package static let privateFile: FilePermissions = .ownerReadWrite

    /// `0700`.
    package static let privateDirectory: FilePermissions = .ownerReadWriteExecute

    /// The permissions that a file of another owner may inherit: set-user-ID and set-group-ID would grant the rights of
    /// the new owner.
    package var withoutSetID: FilePermissions { subtracting([.setUserID, .setGroupID]) }
}
