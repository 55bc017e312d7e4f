public import ForgeFileSystem
public import Foundation

/// A file store in memory: the engine of ``DiskFileStore`` on an `InMemoryFileSystem`.
///
/// It gives the same results and errors as a store on disk, and needs no disk and no cleanup. Only ``url(for:)`` is
/// unsupported, because other code could not read a file in memory at a URL.
public final class InMemoryFileStore: StreamingFileStoring {
    /// The file system of the files, which are below `/store`. Tests use it to inject errors, fill the disk or inspect
    /// the files.
    public let fileSystem: InMemoryFileSystem

    private let engine: FileStoreEngine

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
        engine = FileStoreEngine(
            .init(
                root: .success("/store"), fileSystem: fileSystem, sources: sources, options: options,
                waitsForDevice: false))
    }
}

extension InMemoryFileStore {
    public func save(_ data: Data, to key: String, overwrite: Bool) async throws {
        try await engine.save(data, to: key, overwrite: overwrite)
    }

    public func load(_ key: String) async throws -> Data {
        try await engine.load(key)
    }

    public func exists(_ key: String) -> Bool {
        engine.exists(key)
    }

    public func info(_ key: String) async throws -> StoredFile {
        try await engine.info(key)
    }

    public func delete(_ key: String) async throws {
        try await engine.delete(key)
    }

    public func list(in directory: String) async throws -> [StoredFile] {
        try await engine.list(in: directory, recursive: false)
    }

    public func list(in directory: String, recursive: Bool) async throws -> [StoredFile] {
        try await engine.list(in: directory, recursive: recursive)
    }

    public func deleteAll() async throws {
        try await engine.deleteAll()
    }

    public func totalSize() async throws -> Int64 {
        try await engine.totalSize()
    }

    public func copy(from source: URL, to key: String, overwrite: Bool) async throws {
        try await engine.copy(from: source, to: key, overwrite: overwrite, progress: nil)
    }

    public func move(from source: URL, to key: String, overwrite: Bool) async throws {
        try await engine.move(from: source, to: key, overwrite: overwrite)
    }

    public func createDirectory(_ key: String) async throws {
        try await engine.createDirectory(key)
    }

    public func deleteDirectory(_ key: String) async throws {
        try await engine.deleteDirectory(key)
    }
}

extension InMemoryFileStore {
    @discardableResult
    public func save(
        _ data: Data, to key: String, if condition: SaveCondition, durability: Durability?,
        attributes: [String: String]
    ) async throws -> StoredFile {
        try await engine.save(data, to: key, if: condition, durability: durability, attributes: attributes)
    }

    public func apply(_ batch: FileBatch, durability: Durability?) async throws {
        try await engine.apply(batch, durability: durability)
    }

    public func reader(for key: String) async throws -> FileReader {
        try await engine.reader(for: key)
    }

    public func writer(
        for key: String, if condition: SaveCondition, durability: Durability?, attributes: [String: String]
    ) async throws -> FileWriter {
        try await engine.writer(for: key, if: condition, durability: durability, attributes: attributes)
    }

    public func copy(from source: URL, to key: String, overwrite: Bool, progress: Progress?) async throws {
        try await engine.copy(from: source, to: key, overwrite: overwrite, progress: progress)
    }

    public func export(_ key: String, to destination: URL, overwrite: Bool, progress: Progress?) async throws {
        try await engine.export(key, to: destination, overwrite: overwrite, progress: progress)
    }

    public func files(in directory: String, _ options: FileListingOptions) -> FileListing {
        engine.files(in: directory, options)
    }

    public func changes(in directory: String) -> FileChanges {
        engine.changes(in: directory)
    }
}
