#if canImport(Darwin)
extension FileSystemOperation {
    /// The operations that fail with `EPERM` on a locked device (Data Protection, Apple Platform Security): those that
    /// access the content of a file. Names and attributes are always accessible.
    static let failingWhileLocked: Set<FileSystemOperation> = [.open, .read, .write, .truncate, .allocate, .map]
}
#endif
