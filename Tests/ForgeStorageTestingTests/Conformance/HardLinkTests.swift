import Crypto
import ForgeCrypt
import ForgeFileStore
import ForgeFileSystem
import ForgeStorage
import Foundation
import SystemPackage
import Testing

/// A directory whose files have second names in another one, as after `cp -al` or `rsync --link-dest`.
@Suite("Stores whose files have a second hard link")
struct HardLinkTests {
    /// The classes of stores that replace files.
    enum Class: CaseIterable {
        case files, storage, images, cache, vault, vaultKey
    }

    private static let root: POSIXPath = "/app/store"
    private let fileSystem = InMemoryFileSystem()
    private let url = URL(HardLinkTests.root, isDirectory: true)

    /// Links every file of the store, its internal files included, and returns the contents by the second names.
    private func snapshot(_ name: String) throws -> [POSIXPath: [UInt8]] {
        let copy = POSIXPath("/snapshots/\(name)")
        var contents: [POSIXPath: [UInt8]] = [:]
        var pending: [POSIXPath] = ["."]
        while let directory = pending.popLast() {
            try fileSystem.makeDirectories(copy.appending(directory))
            let entries = try fileSystem.withDirectory(Self.root.appending(directory)) {
                (descriptor) throws(FileSystemError) in try fileSystem.entries(of: descriptor)
            }
            for entry in entries {
                let path = directory.appending(entry.name)
                if entry.type == .directory {
                    pending.append(path)
                } else {
                    try fileSystem.link(Self.root.appending(path), to: copy.appending(path))
                    if entry.name.isReservedName { continue }
                    contents[copy.appending(path)] = try fileSystem.readFile(copy.appending(path))
                }
            }
        }
        #expect(!contents.isEmpty)
        return contents
    }

    private func expectUnchanged(_ contents: [POSIXPath: [UInt8]]) throws {
        for (path, content) in contents { #expect(try fileSystem.readFile(path) == content, "\(path)") }
    }

    /// The value of the only key; nil if there is none. A store is opened for each call.
    private func read(_ store: Class) async throws -> Data? {
        switch store {
        case .files:
            let store = DiskFileStore(root: url, fileSystem: fileSystem)
            return store.exists("d/a") ? try await store.load("d/a") : nil
        case .storage:
            do {
                return try DiskStorage(path: url, fileSystem: fileSystem).fetchValue(for: "d/a")
            } catch StorageError.notFound {
                return nil
            }
        case .images:
            return try ImageCacheManager(fileSystem: fileSystem, cacheDirectory: url).readCachedImage(id: "a")?.data
        case .cache:
            let cache = try BoundedCache<Data>(directory: url, fileSystem: fileSystem)
            return try await cache.value(for: "a") { _ in .absent(expiresAfter: .seconds(1)) }
        case .vault: return try vault().get(CryptKey<Data>(key: "a"))
        case .vaultKey:
            return try VaultKeyFile.load(at: url.appending(component: "key"), fileSystem: fileSystem)
                .map { key in key.withUnsafeBytes { Data($0) } }
        }
    }

    private func vault() throws -> VaultCrypt {
        let key = SymmetricKey(data: [UInt8](repeating: 7, count: 32))
        return try VaultCrypt(at: url.appending(component: "vault"), key: key, fileSystem: fileSystem)
    }

    private func save(_ value: Data, in store: Class) async throws {
        switch store {
        case .files: try await DiskFileStore(root: url, fileSystem: fileSystem).save(value, to: "d/a")
        case .storage:
            let storage: DiskStorage = DiskStorage(path: url, fileSystem: fileSystem)
            try storage.save(value: value, for: "d/a")
        case .images:
            try ImageCacheManager(fileSystem: fileSystem, cacheDirectory: url).cacheImage(id: "a", data: value)
        case .cache: try await BoundedCache<Data>(directory: url, fileSystem: fileSystem).insert(value, for: "a")
        case .vault: try vault().set(value, for: CryptKey<Data>(key: "a"))
        case .vaultKey:
            _ = try VaultKeyFile.loadOrCreate(at: url.appending(component: "key"), fileSystem: fileSystem)
        }
    }

    private func remove(from store: Class) async throws {
        switch store {
        case .files: try await DiskFileStore(root: url, fileSystem: fileSystem).delete("d/a")
        case .storage: try DiskStorage(path: url, fileSystem: fileSystem).removeValue(for: "d/a")
        case .images:
            try ImageCacheManager(fileSystem: fileSystem, cacheDirectory: url).deleteCachedImage(id: "a")
        case .cache: try await BoundedCache<Data>(directory: url, fileSystem: fileSystem).remove("a")
        case .vault: try vault().delete(CryptKey<Data>(key: "a"))
        case .vaultKey: try fileSystem.unlink(Self.root.appending("key"))
        }
    }

    private func removeAll(from store: Class) async throws {
        switch store {
        case .files:
            try await DiskFileStore(root: url, fileSystem: fileSystem).deleteDirectory("d")
        case .storage, .vaultKey: try await remove(from: store)
        case .images: try ImageCacheManager(fileSystem: fileSystem, cacheDirectory: url).clearCache()
        case .cache: try await BoundedCache<Data>(directory: url, fileSystem: fileSystem).purge()
        case .vault: try vault().deleteAll()
        }
    }

    @Test("serve, replace and remove them; the other name keeps its content", arguments: Class.allCases)
    func table(_ store: Class) async throws {
        try await save(Data("old".utf8), in: store)
        let first = try #require(try await read(store))
        let before = try snapshot("first")
        #expect(try await read(store) == first)

        try await save(Data("new".utf8), in: store)
        if store != .vaultKey { #expect(try await read(store) == Data("new".utf8)) }
        try expectUnchanged(before)

        let second = try snapshot("second")
        try await remove(from: store)
        #expect(try await read(store) == nil)
        try expectUnchanged(before.merging(second) { $1 })

        try await save(Data("again".utf8), in: store)
        let third = try snapshot("third")
        try await removeAll(from: store)
        #expect(try await read(store) == nil)
        try expectUnchanged(before.merging(second) { $1 }.merging(third) { $1 })
    }

    @Test("a file store removes them all")
    func removesAll() async throws {
        let store = DiskFileStore(root: url, fileSystem: fileSystem)
        for key in ["a", "d/b", "d/e/c"] { try await store.save(Data(key.utf8), to: key) }
        let before = try snapshot("all")
        #expect(try await store.totalSize() == 9)
        try await store.deleteAll()
        #expect(try await store.list(recursive: true).isEmpty)
        try expectUnchanged(before)
    }
}
