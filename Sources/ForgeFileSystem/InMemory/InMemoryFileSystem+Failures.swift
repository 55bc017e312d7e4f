public import Foundation
import Synchronization

/// Injected failures, and the two calls that throw them unchanged.
extension InMemoryFileSystem {
    /// While set, every call that would store content fails, for all processes.
    ///
    /// ``write(_:to:)`` throws the error unchanged. At the descriptor level, `write`, `truncate`, `allocate` and an
    /// `open` that would create or truncate a file throw a ``FileSystemError`` with `EIO` and this error underlying.
    /// Directories, links, names and attributes are not content and can still be changed; no stored data is lost. At
    /// the descriptor level, errors detected before storing, such as a missing parent directory, take precedence.
    ///
    /// Stores use descriptors, so they see `EIO`: with `CocoaError(.fileWriteOutOfSpace)` a `DiskFileStore` throws
    /// `.unavailable`, not `.noSpace`. To simulate a full device (`ENOSPC`), call ``setQuota(_:at:)``.
    public var writeError: (any Error)? {
        get { tree.state.withLock { $0.writeError } }
        set { tree.state.withLock { $0.writeError = newValue } }
    }

    /// While set, every call that would read content fails, for all processes.
    ///
    /// ``read(from:)`` throws the error unchanged; at the descriptor level, `read` throws a ``FileSystemError`` with
    /// `EIO` and this error underlying. Attributes, names and links remain readable.
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
