/// The operations of a file system, as errors, fault plans and operation logs name them.
public enum FileSystemOperation: String, CaseIterable, Sendable {
    case open, close, duplicate
    case read, write, seek, truncate, allocate, synchronize
    case map, store, writeBack
    case status, setPermissions, setOwner, setTimes
    case createDirectory, createNode, removeDirectory, unlink, rename, link
    case createSymbolicLink, readSymbolicLink
    case list, lock
    /// Turning a URL into a path; fails before any other operation is tried.
    case resolve
}

extension FileSystemOperation: CustomStringConvertible {
    public var description: String { rawValue }
}
