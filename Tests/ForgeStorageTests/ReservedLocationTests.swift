import ForgeStorage
import Foundation
import Testing

@Suite("Stores at reserved names")
struct ReservedLocationTests {
    private let fileSystem = InMemoryFileSystem()

    @Test(
        "no store creates a directory with a reserved name",
        arguments: [
            "/app/#lock", "/app/#LOCK", "/app/#lock-vaults", "/app/#tmp-of-vaults", "/app/#tmp-x/a/b", "/app/#trash-x",
        ])
    func refused(path: String) async throws {
        let url = URL(filePath: path, directoryHint: .isDirectory)
        #expect(throws: KVStoreError.self) { try FileKVStore(at: url, fileSystem: fileSystem) }
        await #expect(throws: FileStoreError.self) {
            try await DiskFileStore(root: url, fileSystem: fileSystem).save(Data(), to: "a")
        }
        #expect(throws: StorageError.self) {
            try DiskStorage(path: url, fileSystem: fileSystem).save(value: Data(), for: "a")
        }
        #expect(throws: FileSystemError.self) {
            try ImageCacheManager(fileSystem: fileSystem, cacheDirectory: url).cacheImage(id: "a", data: Data())
        }
        let key = try VaultKeyFile.loadOrCreate(at: URL(filePath: "/keys/key"), fileSystem: fileSystem)
        let vault = try VaultCrypt(at: url.appending(path: "v"), key: key, fileSystem: fileSystem)
        #expect(throws: CryptError.self) { try vault.setRawValue([1], named: "a", accessibility: .whenUnlocked) }
        #expect(try fileSystem.contentsOfDirectory(at: URL(filePath: "/")).map(\.lastPathComponent) == ["keys"])
    }
}
