public import ForgeFileStore
import ForgeFileSystem
public import ForgeKVStore
import Synchronization

/// A key-value store on a ``SimulatedDevice``: a `FileKVStore` that is opened on first use.
///
/// Creating one performs no I/O and cannot fail, so that it can be a constant of an app started while the device is
/// locked. While its files are unreadable, `read` and all other throwing calls throw `KVStoreError` with
/// `.unavailable(.locked)`; `get` returns nil and `contains` false, as documented.
///
/// A store of the class `.complete` is closed when the device is locked and reopened afterwards, as in an app that
/// handles `protectedDataWillBecomeUnavailable`. It belongs to the process that it was created for: after the end of
/// that process, every call throws `.unavailable(.inputOutput)`.
public final class DeviceKVStore: KVTransactionalStoring {
    /// The protection class of the store's files.
    public let protection: FileProtection

    private let fileSystem: DeviceFileSystem
    private let path: POSIXPath
    private let opened = Mutex<FileKVStore?>(nil)

    init(_ path: POSIXPath, _ protection: FileProtection, on fileSystem: DeviceFileSystem) {
        self.path = path
        self.protection = protection
        self.fileSystem = fileSystem
    }

    /// Releases the open store; the next call opens it again.
    func release() {
        let store = opened.withLock { store in
            defer { store = nil }
            return store
        }
        withExtendedLifetime(store) {}
    }

    private func store(_ operation: KVStoreError.Operation, _ key: String? = nil) throws(KVStoreError) -> FileKVStore {
        do {
            return try opened.withLock { store in
                if let store { return store }
                try fileSystem.makeDirectories(path)
                try fileSystem.setProtection(protection, of: path)
                // After its process has ended, a store would otherwise log that it cannot close its files.
                let new = try FileKVStore(at: path, fileSystem: fileSystem, options: .silent)
                store = new
                return new
            }
        } catch var error as KVStoreError {
            error.operation = operation
            error.key = key
            throw error
        } catch let error as FileSystemError {
            let reason: Unavailability = error.isLocked ? .locked : .inputOutput
            throw KVStoreError(
                .unavailable(reason), operation, key: key, store: String(path), underlying: error)
        } catch {
            throw KVStoreError(
                .unavailable(.inputOutput), operation, key: key, store: String(path), underlying: error)
        }
    }

    /// Makes all earlier writes durable; see `FileKVStore`.
    public func synchronize() throws {
        try store(.synchronize).synchronize()
    }
}

extension DeviceKVStore {
    public func get<T>(_ key: KVKey<T>) -> T? {
        do {
            return try store(.get, key.name).get(key)
        } catch {
            return nil  // As documented; `read` tells the difference.
        }
    }

    public func read<T>(_ key: KVKey<T>) throws -> T? {
        try store(.read, key.name).read(key)
    }

    public func set<T>(_ key: KVKey<T>, value: T) throws {
        try store(.set, key.name).set(key, value: value)
    }

    public func remove<T>(_ key: KVKey<T>) throws {
        try store(.remove, key.name).remove(key)
    }

    public func contains<T>(_ key: KVKey<T>) -> Bool {
        do {
            return try store(.contains, key.name).contains(key)
        } catch {
            return false  // As documented; `read` tells the difference.
        }
    }

    public func removeAll() throws {
        try store(.removeAll).removeAll()
    }

    public func keys() throws -> [String] {
        try store(.keys).keys()
    }

    public func rawValue(named name: String) throws -> [UInt8]? {
        try store(.read, name).rawValue(named: name)
    }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try store(.set, name).setRawValue(bytes, named: name)
    }

    public func removeValue(named name: String) throws {
        try store(.remove, name).removeValue(named: name)
    }

    public func entry(named name: String) throws -> KVEntry? {
        try store(.read, name).entry(named: name)
    }

    public func snapshot() throws -> KVSnapshot {
        try store(.snapshot).snapshot()
    }

    public func commit(_ batch: KVBatch) throws {
        try store(.batch).commit(batch)
    }
}
