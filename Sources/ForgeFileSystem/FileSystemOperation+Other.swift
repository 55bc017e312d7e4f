#if !canImport(Darwin)
extension FileSystemOperation {
    /// None: this platform has no protection by a device lock.
    static let failingWhileLocked: Set<FileSystemOperation> = []
}
#endif
