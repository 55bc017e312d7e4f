public import Dispatch
public import ForgeFileSystem
public import Foundation

/// A storage that keeps each value in a file of its own, named after its key.
///
/// A key is a path below the storage's root: `"timeline"`, `"users/42/timeline"`. One that could lead elsewhere, such
/// as `"../x"`, is refused with an `InvalidKey` before the disk is touched, and no link below the root is followed.
/// Where a key stands, no other can stand below it: `"users"` and `"users/42"` cannot both be stored. On a disk that
/// ignores case, keys that differ only in that are one.
///
/// A value that was saved survives a kill of the process and a power cut, and is never torn: after a crash there is
/// the old value or the new. Reading creates nothing; the root is created, with mode 0700, by the first save. Values
/// are files of mode 0600.
///
/// All calls may come from any thread at once. Those that wait do their work on the caller's thread; those with a
/// handler, and the async ones, do it on the queue, one after the other in the order of the calls.
public final class DiskStorage: Storage {
    private let engine: StorageEngine
    private let queue: DispatchQueue

    /// A storage in the directory `path`, which is neither opened nor created yet.
    ///
    /// - Parameters:
    ///   - path: The root, a file URL.
    ///   - queue: Where calls with a handler work and call it. Only a serial queue keeps them in order.
    ///   - fileSystem: Where the root is; the system's own unless said otherwise.
    public init(
        path: URL, queue: DispatchQueue = DispatchQueue(label: "ForgeStorage.DiskStorage"),
        fileSystem: any POSIXFileSystem = SystemFileSystem()
    ) {
        self.engine = StorageEngine(location: path, fileSystem: fileSystem)
        self.queue = queue
    }

    /// A storage in the directory `path`, as ``init(path:queue:fileSystem:)`` makes it; the file manager is not used.
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
