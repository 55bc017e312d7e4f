public import ForgeFileSystem
public import Foundation

/// A store of plain files below one directory.
///
/// A file at the key `notes/a.txt` is the file `notes/a.txt` below the root, visible to other programs. Files are 0600,
/// directories 0700, regardless of the umask. No key, link or renamed directory leads out of the root.
///
/// The initialiser does not access the disk and cannot fail. The first write creates the root; calls throw while the
/// root cannot be opened. So a store can be a constant of an app that may start while the device is locked. Call
/// ``open()`` to check early whether the root can be used. If the root is removed or replaced, the next call reopens
/// it.
///
/// Any number of stores, in any number of processes, can use one root at the same time. No call changes or removes
/// entries that it did not create: names that are not valid keys, symbolic links, FIFOs, sockets, root
/// directories of other stores, and mount points. A file may have several hard links (`cp -al`, `rsync --link-dest`):
/// a save or a removal changes the key only, and the other names keep the file.
public final class DiskFileStore: PlainFileStore, @unchecked Sendable {
    /// Creates a store of the files below `root`, which is created on first use.
    ///
    /// - Parameters:
    ///   - root: The directory; it should belong to this store alone.
    ///   - fileSystem: The file system of the directory.
    ///   - sources: The file system of the URLs of copies, moves and exports; nil for `fileSystem`.
    ///   - fileProtection: When the files that are created later can be read on an Apple device: the class is set on the
    ///     root, and files that exist keep theirs. Nil keeps the class of the directory.
    ///   - options: Durability and limits.
    public init(
        root: URL, fileSystem: any POSIXFileSystem = SystemFileSystem(), sources: (any POSIXFileSystem)? = nil,
        fileProtection: FileProtection? = nil, options: FileStoreOptions = FileStoreOptions()
    ) {
        super.init(
            .init(
                root: Self.location { () throws(FileSystemError) in try POSIXPath(root) }, fileSystem: fileSystem,
                sources: sources, fileProtection: fileProtection, options: options))
    }

    /// Creates a store in a standard directory of the system.
    ///
    /// - Parameters:
    ///   - directory: The kind of data.
    ///   - namespace: The name of the store's own directory in it: one component, such as the app's identifier.
    ///   - fileProtection: When the files that are created later can be read on an Apple device; files that exist keep
    ///     their class.
    ///   - options: Durability and limits.
    public init(
        directory: StandardDirectory, namespace: String,
        fileProtection: FileProtection = .completeUntilFirstUserAuthentication,
        options: FileStoreOptions = FileStoreOptions()
    ) {
        let root: Result<POSIXPath, FileStoreError>
        do {
            let name = try RelativeKey(component: namespace)
            root = Self.location { () throws(FileSystemError) in try directory.path().appending(name.path) }
        } catch {
            root = .failure(
                FileStoreError(.invalidKey(error.reason), .open, key: namespace, underlying: error))
        }
        super.init(
            .init(root: root, fileSystem: SystemFileSystem(), fileProtection: fileProtection, options: options))
    }

    private static func location(
        _ path: () throws(FileSystemError) -> POSIXPath
    ) -> Result<POSIXPath, FileStoreError> {
        do {
            return .success(try path())
        } catch {
            return .failure(FileStoreError(opening: error, .open, key: ""))
        }
    }

    /// Creates the root if it is missing, and removes the temporary files of stores whose process has died.
    ///
    /// Otherwise the first write does both. Reads create nothing.
    nonisolated(nonsending) public func open() async throws {
        try await run(.open, "") { [self] cancellation in
            cancellation.expectLongWork()
            try openRoot()
        }
    }

    /// The URL of the root; throws if it could not be determined, for example because the namespace is invalid.
    public var root: URL {
        get throws { URL(try configuration.root.get(), isDirectory: true) }
    }
}

/// A file store in memory: the engine of ``DiskFileStore`` on an `InMemoryFileSystem`.
///
/// It gives the same results and errors as a store on disk, and needs no disk and no cleanup. Only `url(for:)` is
/// unsupported, because other code could not read a file in memory at a URL.
///
/// Not simulated, unless a test brings it about through ``fileSystem``: a full, read-only or failing device, damage, files
/// of other programs, and other processes (`InMemoryFileSystem.process()`). There is no device that could be locked: for
/// that, take a ``DiskFileStore`` of a `SimulatedDevice` of ForgeCrashTesting. For planned faults, open a
/// ``DiskFileStore`` on a `FaultingFileSystem` of ForgeStorageTesting.
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
