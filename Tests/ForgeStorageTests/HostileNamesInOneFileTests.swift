import ForgeStorage
import ForgeStorageTesting
import Foundation
import TestDepth
import Testing

/// Stores that keep all keys in one file: a name is plain bytes to them, whatever it would mean as a path.
@Suite("Hostile names in stores of one file")
struct HostileNamesInOneFileTests {
    private static let canary = Data("canary".utf8)

    /// Runs `attack` beside a canary and expects that only the store exists afterwards.
    private func besideCanary(_ attack: (_ root: URL) throws -> Void) async throws {
        try await withTemporaryDirectory { directory in
            let fileSystem = SystemFileSystem()
            for neighbour in ["outside", "storeroom"] {
                let place = directory.appending(component: neighbour)
                try fileSystem.createDirectory(at: place, withIntermediateDirectories: false)
                try fileSystem.write(Self.canary, to: place.appending(component: "canary.txt"))
            }
            try attack(directory.appending(component: "store"))
            let left = try fileSystem.contentsOfDirectory(at: directory).map(\.lastPathComponent)
            #expect(Set(left) == ["outside", "storeroom", "store"])
            for neighbour in ["outside", "storeroom"] {
                let place = directory.appending(component: neighbour)
                #expect(try fileSystem.contentsOfDirectory(at: place).map(\.lastPathComponent) == ["canary.txt"])
                #expect(try fileSystem.read(from: place.appending(component: "canary.txt")) == Self.canary)
            }
        }
    }

    @Test("every verb of a key-value store takes a hostile name as bytes or refuses it by a typed error")
    func keyValueStore() async throws {
        #expect(HostileKeys.all.count >= 300)
        try await besideCanary { root in
            let store = try FileKVStore(at: root)
            for hostile in HostileKeys.all {
                let key = KVKey<String>(hostile.key)
                do {
                    try store.set(key, value: "attack")
                } catch {
                    #expect(error is KVStoreError, "\(hostile)")
                    #expect(throws: KVStoreError.self, "\(hostile)") { try store.read(key) }
                    #expect(throws: KVStoreError.self, "\(hostile)") { try store.rawValue(named: hostile.key) }
                    #expect(throws: KVStoreError.self, "\(hostile)") { try store.remove(key) }
                    #expect(store.get(key) == nil)
                    #expect(!store.contains(key))
                    continue
                }
                #expect(store.get(key) == "attack", "\(hostile)")
                #expect(try store.read(key) == "attack", "\(hostile)")
                #expect(store.contains(key))
                #expect(try store.keys().count == 1)
                #expect(try store.rawValue(named: hostile.key) != nil)
                try store.remove(key)
                #expect(!store.contains(key))
            }
            #expect(try SystemFileSystem().contentsOfDirectory(at: root).count == 3, "log, lock and marker")
        }
    }

    @Test("every verb of a vault takes a hostile name as bytes or refuses it by a typed error")
    func vault() async throws {
        try await besideCanary { root in
            let vault = try VaultCrypt(
                at: root.appending(component: "vault"),
                key: VaultKeyFile.loadOrCreate(at: root.appending(component: "key")))
            for hostile in TestDepth.sample(HostileKeys.all, every: 5) {
                let key = CryptKey<String>(key: hostile.key)
                do {
                    try vault.set("attack", for: key)
                } catch {
                    #expect(throws: CryptError.self, "\(hostile)") { try vault.get(key) }
                    #expect(throws: CryptError.self, "\(hostile)") { try vault.contains(key) }
                    #expect(throws: CryptError.self, "\(hostile)") { try vault.delete(key) }
                    continue
                }
                #expect(try vault.get(key) == "attack", "\(hostile)")
                #expect(try vault.contains(key))
                #expect(try vault.keys().count == 1)
                try vault.delete(key)
                #expect(try !vault.contains(key))
            }
        }
    }
}
