import ForgeStorage
import Foundation

/// All stores of the demo, in one directory.
struct DemoStores {
    let directory: URL
    let settings: FileKVStore
    let files: DiskFileStore
    let secrets: VaultCrypt
    let session: SessionManager<TaskFlow.User, SessionStorageError>
    let images: ImageCacheManager
    let values: CodableStorage
    let valueFiles: DiskStorage

    /// Opens the stores, creating missing ones.
    init(directory: URL) throws {
        self.directory = directory
        settings = try FileKVStore(at: directory.appendingPathComponent("settings"))
        files = DiskFileStore(root: directory.appendingPathComponent("files"))
        secrets = try VaultCrypt(
            at: directory.appendingPathComponent("secrets/vault"),
            key: VaultKeyFile.loadOrCreate(at: directory.appendingPathComponent("vault-key")))
        session = SessionManager(storage: KVSessionStorage(store: settings))
        images = ImageCacheManager(cacheDirectory: directory.appendingPathComponent("images"))
        valueFiles = DiskStorage(path: directory.appendingPathComponent("values"))
        values = CodableStorage(storage: valueFiles)
    }
}
