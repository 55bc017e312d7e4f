public import Dispatch
public import ForgeFileSystem
public import Foundation

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
