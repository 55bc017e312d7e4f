import ForgeStorage
import ForgeStorageTesting
import Foundation
import TestDepth
import Testing

/// The hostile keys of the published table, and names that lead elsewhere, break a path, or are special on some system.
let hostileNames: [String] = unique(
    HostileKeys.all.map(\.key)
        + [
            "", ".", "..", "../x", "../../x", "a/../../x", "/etc/passwd", "//x", "a/b", "a//b", "a/", "a/.", "./a", "~",
            "~root",
            "~/x", "a\0b", "\0", "a\nb", "a\\b", "..\\x", "C:\\x", "C:x", "\\\\host\\share", "con", "CON", "con.txt",
            "nul",
            "aux",
            "com1", "lpt9", "%2e%2e%2fx", "%2F", "%00", "%", "a%", "x.cache", ".cache", ".hidden", "trailing.",
            "trailing ",
            " ",
            "#lock", "#tmp-x", "#trash-x", "=", "=2e", "a=41", "~a~b", "$HOME", "$(id)", "`id`", "-rf", "--", "*", "?",
            "a:b", "a;b",
            "é", "e\u{301}", "ß", "ss", "SS", "İ", "ı", "\u{202e}abc", "\u{200b}", "\u{feff}", "👩‍👩‍👧‍👦", "日本語", "\u{fffd}",
            "Foo", "foo", "FOO", "\u{7f}", "\u{1b}[2J", "file:///etc/passwd", "http://x/y",
        ]
        + [100, 180, 181, 255, 256, 300, 1024, 1025, 4096, 100_000].map { String(repeating: "a", count: $0) }
        + [60, 61, 300].map { String(repeating: "é", count: $0) }
        + (1...40).map { String(repeating: "../", count: $0) + "escaped" })

/// Byte by byte: strings that Swift considers equal are two names.
private func unique(_ names: [String]) -> [String] {
    var seen: Set<[UInt8]> = []
    return names.filter { seen.insert(Array($0.utf8)).inserted }
}

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
            #expect(try SystemFileSystem().contentsOfDirectory(at: root).count == 4, "log, lock, marker and reserve")
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

@Suite("Stores at reserved names", .eachPlatform)
struct ReservedLocationTests {
    private let fileSystem = EachPlatform.fileSystem()

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
