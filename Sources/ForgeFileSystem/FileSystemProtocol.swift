public import Foundation

/// The six file operations of apps that store files.
///
/// Code that stores files takes any `FileSystemProtocol`: ``SystemFileSystem`` in the app, ``InMemoryFileSystem`` in
/// its tests, or a type of the app's own. The six calls are the only requirements.
///
/// A file URL is interpreted byte for byte: `~` is an ordinary name, and a percent escape is decoded exactly once. A
/// URL that is not a path (another scheme, another host, an escaped NUL or slash) is refused with `EINVAL`.
public protocol FileSystemProtocol: Sendable {
    /// Whether a file exists at `path`, following symbolic links.
    ///
    /// `false` also if the lookup failed. Where that matters, read the file and examine the error.
    func fileExists(atPath path: String) -> Bool

    /// Creates a directory.
    ///
    /// - Parameters:
    ///   - url: The directory to create.
    ///   - withIntermediateDirectories: Whether to create missing parents too; a directory that already exists is then
    ///     a success.
    /// - Throws: An error if there is no such directory afterwards, or if it existed and no parents were requested.
    func createDirectory(at url: URL, withIntermediateDirectories: Bool) throws

    /// Stores `data` as the whole content of the file at `url`, creating it if it is missing.
    ///
    /// The implementations of this module replace the file atomically: a reader, and a crash, see the old content or
    /// the new, never a mixture. If the call throws, the old content is kept.
    func write(_ data: Data, to url: URL) throws

    /// The whole content of the file at `url`.
    ///
    /// The implementations of this module read regular files only: a FIFO, a socket or a device is refused with
    /// `ENOTSUP` without blocking.
    func read(from url: URL) throws -> Data

    /// Removes the file, or the directory with its whole tree, at `url`; a symbolic link is removed, never followed.
    ///
    /// Throws if nothing exists at `url`.
    func removeItem(at url: URL) throws

    /// The URLs of the entries of the directory at `url`, without subdirectories' entries, in no particular order.
    func contentsOfDirectory(at url: URL) throws -> [URL]
}
