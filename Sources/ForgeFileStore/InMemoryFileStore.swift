public import ForgeFileSystem

/// A file store in memory: the engine of ``DiskFileStore`` on an `InMemoryFileSystem`.
///
/// It gives the same results and errors as a store on disk, and needs no disk and no cleanup. Only `url(for:)` is
/// unsupported, because other code could not read a file in memory at a URL.
public final class InMemoryFileStore: PlainFileStore, @unchecked Sendable {
    /// The file system of the files, which are below `/store`. Tests use it to inject errors, fill the disk or inspect
    /// the files.
    public let fileSystem: InMemoryFileSystem

    /// Creates an empty store.
    ///
    /// - Parameters:
    ///   - fileSystem: The file system of the files; two stores on the same file system share their files.
    ///   - sources: The file system of the URLs of copies, moves and exports; the disk by default.
    ///   - options: Durability and limits. The content does not survive the process, whatever the durability.
    public init(
        fileSystem: InMemoryFileSystem = InMemoryFileSystem(), sources: any POSIXFileSystem = SystemFileSystem(),
        options: FileStoreOptions = FileStoreOptions()
    ) {
        self.fileSystem = fileSystem
        super.init(
            .init(
                root: .success("/store"), fileSystem: fileSystem, sources: sources, options: options,
                isOnDisk: false))
    }
}
