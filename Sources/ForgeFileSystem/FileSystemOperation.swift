/// The operations of a file system, as named in errors, fault plans and operation logs.
public enum FileSystemOperation: String, CaseIterable, Sendable {
    case open, close, duplicate
    case read, write, copyRange, seek, truncate, allocate, synchronize
    case map, store, writeBack
    case status, setPermissions, setOwner, setTimes
    case listExtendedAttributes, readExtendedAttribute, setExtendedAttribute
    case createDirectory, createNode, removeDirectory, unlink, rename, link
    case createSymbolicLink, readSymbolicLink
    case list, lock, watch
    /// Converting a URL to a path; fails before any other operation.
    case resolve
}

extension FileSystemOperation: CustomStringConvertible {
    public var description: String { rawValue }
}
