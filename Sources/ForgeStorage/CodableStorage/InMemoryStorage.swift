public import Dispatch
import ForgeFileSystem
public import Foundation

/// A storage in memory, for tests and for what need not outlive the process.
///
/// It is ``DiskStorage``'s own engine on an `InMemoryFileSystem`: the same keys are refused, for the same reasons, and
/// the same errors are thrown. It is as empty as a new disk, and nothing is shared between two of them.
public final class InMemoryStorage: Storage {
    private let disk: DiskStorage

    /// An empty storage.
    ///
    /// - Parameter queue: Where calls with a handler work and call it. Only a serial queue keeps them in order.
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
