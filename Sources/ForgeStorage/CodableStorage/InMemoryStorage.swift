public import Dispatch
import ForgeFileSystem
public import Foundation

/// A storage in memory, for tests and for data that need not outlive the process.
///
/// It runs the engine of ``DiskStorage`` on an `InMemoryFileSystem`, so it refuses the same keys and throws the same
/// errors. A new storage is empty; two storages share nothing.
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
