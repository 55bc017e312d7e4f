#if !canImport(Darwin)
extension FileSystemOperation {
    /// None: there is no protection by the lock here.
    static let failingWhileLocked: Set<FileSystemOperation> = []
}
#endif
