public import Dispatch
public import ForgeFileSystem
public import Foundation
import SystemPackage

/// A storage that keeps each value in a file named after its key.
///
/// A key is a path below the storage's root: `"timeline"`, `"users/42/timeline"`. A key that could lead elsewhere, such
/// as `"../x"`, is refused with an `InvalidKey` before any disk access, and no link below the root is followed. A key
/// cannot be a parent of another: `"users"` and `"users/42"` cannot both be stored. On a case-insensitive disk, keys
/// that differ only in case are the same key.
///
/// A saved value survives a kill of the process and a power cut, and is never torn: after a crash there is the old
/// value or the new. Reads create nothing; the first save creates the root, with mode 0700. Values are files of mode
/// 0600.
///
/// All calls are thread-safe. Blocking calls work on the caller's thread; calls with a handler, and the async ones, run
/// on the queue, in call order.
public final class DiskStorage: Storage {
    private let engine: StorageEngine
    private let queue: DispatchQueue

    /// Creates a storage in the directory `path`, which is neither opened nor created yet.
    ///
    /// - Parameters:
    ///   - path: The root, a file URL.
    ///   - queue: The queue for calls with a handler, and for the handlers. Only a serial queue keeps order.
    ///   - fileSystem: The file system of the root; the system's own by default.
    public init(
        path: URL, queue: DispatchQueue = DispatchQueue(label: "ForgeStorage.DiskStorage"),
        fileSystem: any POSIXFileSystem = SystemFileSystem()
    ) {
        self.engine = StorageEngine(location: path, fileSystem: fileSystem)
        self.queue = queue
    }

    /// Creates a storage in the directory `path`, like ``init(path:queue:fileSystem:)``; the file manager is not used.
    @available(
        *, deprecated, message: "the file manager is not used: values are written durably, without it; leave it out"
    )
    public convenience init(
        path: URL, queue: DispatchQueue = DispatchQueue(label: "ForgeStorage.DiskStorage"), fileManager: FileManager
    ) {
        self.init(path: path, queue: queue)
    }

    public func fetchValue(for key: String) throws -> Data {
        try engine.fetch(key)
    }

    public func fetchValue(for key: String, handler: @escaping Handler<Data>) {
        queue.async { [engine] in handler(Result { try engine.fetch(key) }) }
    }

    public func save(value: Data, for key: String) throws {
        try engine.save(value, for: key)
    }

    public func save(value: Data, for key: String, handler: @escaping Handler<Data>) {
        queue.async { [engine] in
            handler(
                Result {
                    try engine.save(value, for: key)
                    return value
                })
        }
    }

    public func removeValue(for key: String) throws {
        try engine.remove(key)
    }
}

/// A storage in memory, for tests and for data that need not outlive the process.
///
/// It runs the engine of ``DiskStorage`` on an `InMemoryFileSystem`, so it refuses the same keys and throws the same
/// errors. A new storage is empty; two storages share nothing.
///
/// Not simulated: a full, read-only or failing device, damaged files, other processes and programs, and a device that is
/// locked. For these, open a ``DiskStorage`` on an `InMemoryFileSystem` or on a `FaultingFileSystem` of
/// ForgeStorageTesting.
public final class InMemoryStorage: Storage {
    private let disk: DiskStorage

    /// Creates an empty storage.
    ///
    /// - Parameter queue: The queue for calls with a handler, and for the handlers. Only a serial queue keeps order.
    public init(queue: DispatchQueue = DispatchQueue(label: "ForgeStorage.InMemoryStorage")) {
        disk = DiskStorage(path: URL(filePath: "/storage"), queue: queue, fileSystem: InMemoryFileSystem())
    }

    public func fetchValue(for key: String) throws -> Data {
        try disk.fetchValue(for: key)
    }

    public func fetchValue(for key: String, handler: @escaping Handler<Data>) {
        disk.fetchValue(for: key, handler: handler)
    }

    public func save(value: Data, for key: String) throws {
        try disk.save(value: value, for: key)
    }

    public func save(value: Data, for key: String, handler: @escaping Handler<Data>) {
        disk.save(value: value, for: key, handler: handler)
    }

    public func removeValue(for key: String) throws {
        try disk.removeValue(for: key)
    }
}

/// The implementation that ``DiskStorage`` and ``InMemoryStorage`` share: one file for each key, on any POSIX file
/// system.
final class StorageEngine: Sendable {
    private let root: Result<LazyStoreDirectory, FileSystemError>

    init(location: URL, fileSystem: any POSIXFileSystem) {
        root = Result { () throws(FileSystemError) in
            LazyStoreDirectory(try POSIXPath(location), of: .values, on: fileSystem)
        }
    }

    func fetch(_ key: String) throws(StorageError) -> Data {
        do {
            let key = try RelativeKey(key)
            guard let directory = try root.get().existing() else { throw StorageError.notFound }
            return Data(try directory.read(key))
        } catch let error as StorageError {
            throw error
        } catch let error as FileSystemError where error.errno == .noSuchFileOrDirectory {
            throw .notFound
        } catch {
            throw .cantRead(error)
        }
    }

    func save(_ value: Data, for key: String) throws(StorageError) {
        do {
            let key = try RelativeKey(key)
            // A longer value could not be fetched.
            guard value.count <= maximumContentSizeInBytes else {
                throw FileSystemError(.write, .fileTooLarge, path: key.path)
            }
            try root.get().write { (directory) throws(FileSystemError) in
                try withBytes(of: value) { (bytes) throws(FileSystemError) in try directory.replace(key, with: bytes) }
            }
        } catch {
            throw .cantWrite(error)
        }
    }

    func remove(_ key: String) throws(StorageError) {
        do {
            let key = try RelativeKey(key)
            try root.get().existing()?.unlink(key)
        } catch let error as FileSystemError where error.errno == .noSuchFileOrDirectory {
            return
        } catch {
            throw .cantRemove(error)
        }
    }
}
