public import Foundation
import Synchronization

/// Failures on demand, and the two calls that report them as they were given.
extension InMemoryFileSystem {
    /// While this is set, every call that would store content fails, for all processes.
    ///
    /// ``write(_:to:)`` throws the error as it is. At the level of descriptors `write`, `truncate`, `allocate` and an
    /// `open` that would create or truncate a file throw a ``FileSystemError`` with `EIO` and this error underlying.
    /// Directories, links, names and attributes are no content and can be changed meanwhile; nothing that was stored
    /// is lost. Errors that the call would meet before it came to store anything, such as a missing parent directory,
    /// come first at the level of descriptors.
    ///
    /// Stores work with descriptors, so they see `EIO`: with `CocoaError(.fileWriteOutOfSpace)` a `DiskFileStore`
    /// throws `.unavailable`, not `.noSpace`. For a full device (`ENOSPC`), call ``setQuota(_:at:)``.
    public var writeError: (any Error)? {
        get { tree.state.withLock { $0.writeError } }
        set { tree.state.withLock { $0.writeError = newValue } }
    }

    /// While this is set, every call that would read content fails, for all processes.
    ///
    /// ``read(from:)`` throws the error as it is; at the level of descriptors `read` throws a ``FileSystemError`` with
    /// `EIO` and this error underlying. Looking at attributes, names and links goes on.
    public var readError: (any Error)? {
        get { tree.state.withLock { $0.readError } }
        set { tree.state.withLock { $0.readError = newValue } }
    }

    public func write(_ data: Data, to url: URL) throws {
        if let writeError { throw writeError }
        try replaceContents(of: url, with: data)
    }

    public func read(from url: URL) throws -> Data {
        if let readError { throw readError }
        return try contents(of: url)
    }
}
