import ForgeStorage
import Foundation

/// One store of each kind with one entry each, below a scratch directory.
struct StoreFixture {
    let scratch: Scratch

    init() async throws {
        scratch = try Scratch()
        let settings = try FileKVStore(at: scratch.url.appendingPathComponent("kv"))
        try settings.set(KVKey<String>("name"), value: "dusk")
        // Hundreds of tests wait at the next line at the same time: their stores would hold a thousand descriptors.
        try settings.close()
        try await DiskFileStore(root: scratch.url.appendingPathComponent("files")).save(Data("text".utf8), to: "a.txt")
        let vault = scratch.url.appendingPathComponent("vault")
        let key = try VaultKeyFile.loadOrCreate(at: vault.appendingPathComponent("key"))
        try VaultCrypt(at: vault.appendingPathComponent("v"), key: key).set("s3cret", for: CryptKey(key: "token"))
    }

    /// Every path below the scratch directory with size, modification time and inode.
    func listing() throws -> [String] {
        let fileSystem = SystemFileSystem()
        var found: [String] = []
        var pending = [try POSIXPath(scratch.url)]
        while let path = pending.popLast() {
            let status = try fileSystem.status(path, followsSymbolicLinks: false)
            found.append("\(path) \(status.inode) \(status.sizeInBytes) \(status.modified)")
            var isDirectory: ObjCBool = false
            guard FileManager.default.fileExists(atPath: path.description, isDirectory: &isDirectory),
                isDirectory.boolValue
            else { continue }
            let names = try FileManager.default.contentsOfDirectory(atPath: path.description)
            pending += names.map { path.appending(POSIXPath($0)) }
        }
        return found.sorted()
    }
}
