import ForgeStorage
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

@testable import ForgeInspector

@Suite("A file tree") struct FileTreeTests {
    private let stores: TemporaryStores
    private let tree: FileTree

    init() throws {
        stores = try TemporaryStores()
        tree = FileTree(try stores.root)
        let manager = FileManager.default
        try manager.createDirectory(at: stores.place("notes/deep"), withIntermediateDirectories: true)
        try Data("text".utf8).write(to: stores.place("notes/a.txt"))
        try Data([0, 1, 255]).write(to: stores.place("raw"))
    }

    @Test("lists a directory in windows, directories first")
    func list() throws {
        let page = try tree.list("", offset: 0, limit: 10)
        #expect(page.rows.map(\.name) == ["notes", "raw"])
        #expect(page.rows.map(\.isDirectory) == [true, false])
        #expect(page.rows[1].size == 3)
        #expect(try tree.list("notes", offset: 1, limit: 10).rows.map(\.name) == ["a.txt"])
        #expect(try tree.list("notes", offset: 1, limit: 10).total == 2)
    }

    @Test("lists each name once in windows of one row, also those that are equal strings")
    func equalNames() throws {
        // In the order of their bytes.
        let names: [POSIXPath] = ["A\u{30a}", "a", "e\u{301}", "\u{c5}", "\u{e9}", "\u{212b}"]
        let memory = InMemoryFileSystem(options: .init(listingOrder: .shuffled(seed: 5)))
        try memory.createDirectory("/d")
        for name in names { try memory.write(Data("text".utf8), to: URL(POSIXPath("/d").appending(name))) }
        let tree = FileTree(try ConfinedDirectory("/d", on: memory))
        let windows = try names.indices.map { try tree.list("", offset: $0, limit: 1) }
        #expect(windows.flatMap(\.rows).map(\.id) == names.map(\.percentEncoded))
    }

    @Test("previews text as text, and other bytes in base64")
    func preview() throws {
        #expect(try tree.preview("notes/a.txt", offset: 0).text == "text")
        #expect(try tree.preview("notes/a.txt", offset: 2).text == "xt")
        let raw = try tree.preview("raw", offset: 0)
        #expect(raw.text == nil)
        #expect(raw.base64 == "AAH/")
    }

    @Test("previews bytes that are no text in base64, also without a NUL")
    func notText() throws {
        try Data([255, 254, 253, 252, 251]).write(to: stores.place("raw"))
        let preview = try tree.preview("raw", offset: 0)
        #expect(preview.text == nil)
        #expect(preview.base64 == "//79/Ps=")
    }

    @Test("recognises the files of stores")
    func contents() async throws {
        try stores.keyValueStore("settings").close()
        try Data("aside".utf8).write(to: stores.place("settings/quarantine-tail-00000000-64-00000000"))
        let rows = try tree.list("settings", offset: 0, limit: 10).rows
        #expect(rows.first { $0.name == "log" }?.content == .log)
        #expect(rows.first { $0.name.hasPrefix("quarantine") }?.content == .quarantine)
        let cache = try BoundedCache<String>(directory: stores.place("cache"), coding: .codable)
        await cache.insert("value", for: "key")
        let entries = try tree.list("cache", offset: 0, limit: 10).rows.filter {
            $0.name.hasSuffix(CacheDirectory.suffix)
        }
        #expect(entries.map(\.content) == [.cacheEntry])
    }

    @Test("shows what an app has stored in a file store, whatever its name and content, but no copy of a key or vault")
    func attachments() async throws {
        try stores.keyValueStore("settings").close()
        let log = try Data(contentsOf: stores.place("settings/log"))
        let key = try VaultKeyFile.loadOrCreate(at: stores.place("vaults/key"))
        try VaultCrypt(at: stores.place("vaults/vault"), key: key).set("x", for: CryptKey<String>(key: "name"))
        let files = DiskFileStore(root: stores.place("files"))
        let text = Data("text".utf8)
        let contents = [
            "log": log, "d/log": log, "build\(ImageFile.suffix)": text, "page\(CacheDirectory.suffix)": text,
            "d/build\(ImageFile.suffix)": text, "quarantine-records-1": text, "d/quarantine-x": text,
        ]
        for (name, content) in contents { try await files.save(content, to: name) }
        for name in ["key", "vault"] {
            try await files.save(Data(contentsOf: stores.place("vaults/\(name)")), to: "d/\(name).txt")
        }
        for (name, content) in contents {
            let preview = try tree.preview("files/\(name)", offset: 0)
            #expect(preview.content == .plain, "\(name)")
            #expect(content == log ? preview.base64 != nil : preview.text == "text", "\(name)")
        }
        let rows = try tree.list("files/d", offset: 0, limit: 10).rows
        #expect(rows.map(\.content) == [.plain, .vaultKey, .plain, .plain, .vault])
        for name in ["key", "vault"] {
            let preview = try tree.preview("files/d/\(name).txt", offset: 0)
            #expect(preview.text == nil && preview.base64 == nil, "\(name)")
        }
    }

    @Test("recognises the log, vault and key of a store that is not known, and shows none of them")
    func unknownStore() throws {
        try stores.keyValueStore("later").close()
        let key = try VaultKeyFile.loadOrCreate(at: stores.place("later/key"))
        try VaultCrypt(at: stores.place("later/vault"), key: key).set("x", for: CryptKey<String>(key: "name"))
        try Data("FORGEDIR of a later version".utf8).write(to: stores.place("later/#store-ledger"))
        let previews = try ["log", "vault", "key"].map { try tree.preview("later/\($0)", offset: 0) }
        #expect(previews.map(\.content) == [.log, .vault, .vaultKey])
        #expect(previews.allSatisfy { $0.text == nil && $0.base64 == nil })
    }

    @Test("lists a file that cannot be examined without its size, and the others")
    func unreadable() throws {
        let memory = InMemoryFileSystem()
        try memory.createDirectory("/d")
        for path: POSIXPath in ["/d/a", "/d/b"] { try memory.write(Data("text".utf8), to: URL(path)) }
        let plan = FaultPlan([.fail(.read, matching: "/d/a", with: .ioError)])
        let tree = FileTree(try ConfinedDirectory("/d", on: FaultingFileSystem(memory, plan: plan)))
        let rows = try tree.list("", offset: 0, limit: 10).rows
        #expect(rows.map(\.name) == ["a", "b"])
        #expect(rows.map(\.size) == [0, 4])
        #expect(rows.map(\.content) == [.special, .plain])
    }

    @Test("previews 64 KiB at a time, without a broken character")
    func window() throws {
        try Data(String(repeating: "€", count: 70_000).utf8).write(to: stores.place("long"))
        let preview = try tree.preview("long", offset: 0)
        #expect(preview.size == 210_000)
        let text = try #require(preview.text)
        #expect((FileTree.limit - 3...FileTree.limit).contains(text.utf8.count))
    }

    @Test("never shows the bytes of keys, vaults, locks and temporary files")
    func secrets() throws {
        let key = try VaultKeyFile.loadOrCreate(at: stores.place("key"))
        try VaultCrypt(at: stores.place("vault"), key: key).set("x", for: CryptKey<String>(key: "name"))
        try Data("x".utf8).write(to: stores.place("#tmp-of-vaults"))
        try Data("x".utf8).write(to: stores.place("#tmp-abcdefghij-1"))
        try FileManager.default.copyItem(at: stores.place("key"), to: stores.place("backup.txt"))
        for name in ["key", "vault", "#tmp-of-vaults", "#tmp-abcdefghij-1", "backup.txt", "#lock-vaults"] {
            let preview = try tree.preview(name, offset: 0)
            #expect(preview.text == nil && preview.base64 == nil, "\(name)")
        }
    }

    @Test(
        "does not leave the directory",
        arguments: ["..", "../x", "notes/../../x", "/etc/passwd", "notes//a.txt", "./raw", "link", "dirlink/passwd"])
    func contained(path: String) throws {
        try FileManager.default.createSymbolicLink(
            at: stores.place("link"), withDestinationURL: URL(filePath: "/etc/passwd"))
        try FileManager.default.createSymbolicLink(
            at: stores.place("dirlink"), withDestinationURL: URL(filePath: "/etc"))
        #expect(throws: FileSystemError.self) { try tree.preview(path, offset: 0) }
        #expect(throws: FileSystemError.self) { try tree.list(path, offset: 0, limit: 10) }
    }
}
