public import Foundation

/// The six file operations that an app needs to keep files somewhere.
///
/// Code that stores files takes any `FileSystemProtocol`: ``SystemFileSystem`` in the app, ``InMemoryFileSystem`` in
/// its tests, or a type of the app's own. The six calls are all that is required.
///
/// A file URL is taken byte for byte: `~` is a name like any other, and a percent escape is decoded exactly once. A URL
/// that names no path (another scheme, another host, an escaped NUL or slash) is refused with `EINVAL`.
public protocol FileSystemProtocol: Sendable {
    /// Whether something exists at `path`; a symbolic link counts as what it leads to.
    ///
    /// `false` also when the path could not be looked at. Where that difference matters, read and look at the error.
    func fileExists(atPath path: String) -> Bool

    /// Creates a directory.
    ///
    /// - Parameters:
    ///   - url: The directory to create.
    ///   - withIntermediateDirectories: Whether to create missing parents too; a directory that already exists is then
    ///     a success.
    /// - Throws: An error if there is no such directory afterwards, or if there was one and no parents were asked for.
    func createDirectory(at url: URL, withIntermediateDirectories: Bool) throws

    /// Stores `data` as the whole content of the file at `url`, which is created if it is missing.
    ///
    /// The implementations of this module replace the file atomically: a reader, and a crash, see the old content or
    /// the new, never a mixture. If the call throws, the old content is still there.
    func write(_ data: Data, to url: URL) throws

    /// The whole content of the file at `url`.
    ///
    /// The implementations of this module read regular files only: a FIFO, a socket or a device is refused with
    /// `ENOTSUP`, and never waited for.
    func read(from url: URL) throws -> Data

    /// Removes the file, or the directory with all it holds, at `url`; a symbolic link is removed, never followed.
    ///
    /// Throws if there is nothing at `url`.
    func removeItem(at url: URL) throws

    /// What the directory at `url` holds, one level deep, in no particular order.
    func contentsOfDirectory(at url: URL) throws -> [URL]
}
