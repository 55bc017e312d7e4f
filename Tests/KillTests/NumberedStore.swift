import ForgeStorage
import Foundation

/// A store in a kill test: bytes under a key.
protocol NumberedStore {
    func save(_ value: Data, _ key: String) async throws
    func load(_ key: String) async throws -> Data?
}

struct NumberedKVStore: NumberedStore {
    let store: FileKVStore

    init(directory: URL, sharing: FileKVStore.Sharing = .exclusive) throws {
        var options = FileKVStore.Options()
        options.sharing = sharing
        store = try FileKVStore(at: directory, options: options)
    }

    func save(_ value: Data, _ key: String) throws { try store.set(KVKey(key), value: value) }
    func load(_ key: String) throws -> Data? { try store.read(KVKey(key)) }
}

struct NumberedFileStore: NumberedStore {
    let store: DiskFileStore

    init(directory: URL) throws {
        store = DiskFileStore(root: directory)
    }

    func save(_ value: Data, _ key: String) async throws { try await store.save(value, to: key) }

    func load(_ key: String) async throws -> Data? {
        do {
            return try await store.load(key)
        } catch let error as FileStoreError where error.code == .notFound {
            return nil
        }
    }
}

struct NumberedVault: NumberedStore {
    let store: VaultCrypt

    init(directory: URL) throws {
        store = try VaultCrypt(
            at: directory.appendingPathComponent("vault"),
            key: VaultKeyFile.loadOrCreate(at: directory.appendingPathComponent("key")))
    }

    func save(_ value: Data, _ key: String) throws { try store.set(value, for: CryptKey(key: key)) }
    func load(_ key: String) throws -> Data? { try store.get(CryptKey(key: key)) }
}

struct NumberedStorage: NumberedStore {
    let store: DiskStorage

    init(directory: URL) {
        store = DiskStorage(path: directory)
    }

    func save(_ value: Data, _ key: String) throws { try store.save(value: value, for: key) }

    func load(_ key: String) throws -> Data? {
        do {
            return try store.fetchValue(for: key)
        } catch StorageError.notFound {
            return nil
        }
    }
}

/// Every value twice, written in one batch: if they differ after a kill, the batch was not atomic.
struct NumberedBatches: NumberedStore {
    let store: FileKVStore

    init(directory: URL) throws {
        store = try FileKVStore(at: directory)
    }

    func save(_ value: Data, _ key: String) throws {
        try store.batch { batch in
            try batch.set(KVKey(key), value: value)
            try batch.set(KVKey("twin/" + key), value: value)
        }
    }

    /// The value, or an invalid one if the two copies differ.
    func load(_ key: String) throws -> Data? {
        let value: Data? = try store.read(KVKey(key))
        let twin: Data? = try store.read(KVKey("twin/" + key))
        return value == twin ? value : Data()
    }
}

/// A cache without limits, which evicts nothing.
struct NumberedCache: NumberedStore {
    private struct NotFound: Error {}

    let store: BoundedCache<Data>

    init(directory: URL) throws {
        var options = CacheOptions()
        options.disk = .unlimited
        store = try BoundedCache(directory: directory, options: options)
    }

    func save(_ value: Data, _ key: String) async throws {
        await store.insert(value, for: key)
        guard store.statistics.errorCount == 0 else { throw NotFound() }
    }

    /// The value, or an invalid one if the cache found damage.
    func load(_ key: String) async throws -> Data? {
        do {
            return try await store.value(for: key) { _ in throw NotFound() }
        } catch is NotFound {
            return store.statistics.errorCount == 0 ? nil : Data()
        }
    }
}
