import ForgeStorage
import Foundation

/// The stores of the app, all below one directory.
struct Stores {
    let preferences: FileKVStore
    let files: DiskFileStore
    let secrets: VaultCrypt

    init(directory: URL) throws {
        preferences = try FileKVStore(at: directory.appendingPathComponent("preferences"))
        files = DiskFileStore(root: directory.appendingPathComponent("files"))
        secrets = try VaultCrypt(
            at: directory.appendingPathComponent("secrets/vault"),
            key: VaultKeyFile.loadOrCreate(at: directory.appendingPathComponent("vault-key")))
    }
}
