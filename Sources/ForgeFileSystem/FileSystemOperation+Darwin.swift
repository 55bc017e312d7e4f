#if canImport(Darwin)
extension FileSystemOperation {
    /// The operations that fail with `EPERM` on a locked device (Data Protection, Apple Platform Security): those that
    /// reach the content of a file. Names and attributes can be looked at and changed all the time.
    static let failingWhileLocked: Set<FileSystemOperation> = [.open, .read, .write, .truncate, .allocate, .map]
}
#endif
