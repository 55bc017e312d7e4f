import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Testing

@Suite("Keys below another store's root")
struct NestedStoreTests {
    @Test(
        "change nothing there",
        arguments: [
            "#lock", "#lock-vaults", "#journal-0", "#store-key-value", "#store-vaults", "#store-files", "#store-values",
            "#store-images", "#store-cache",
        ])
    func untouched(_ marker: String) async throws {
        let directory = try TemporaryDirectory()
        let store = DiskFileStore(root: directory.url("app"), options: .init(durability: .none))
        try await store.save(Data("ours".utf8), to: "docs/a")
        try FileManager.default.createDirectory(
            at: directory.url("app/kv/deep"), withIntermediateDirectories: true)
        for name in [marker, "log", "deep/file"] { try directory.write("theirs", to: "app/kv/" + name) }
        let isRefused = hasCode(FileStoreError.Code.unsafe(.anotherStore))
        for key in ["kv/log", "kv/new", "kv/deep/file"] {
            await #expect(performing: { try await store.save(Data("x".utf8), to: key) }, throws: isRefused)
            await #expect(performing: { try await store.delete(key) }, throws: isRefused)
            try directory.write("source", to: "source")
            for copying in [true, false] {
                await #expect(
                    performing: {
                        copying
                            ? try await store.copy(from: directory.url("source"), to: key)
                            : try await store.move(from: directory.url("source"), to: key)
                    }, throws: isRefused)
            }
            #expect(try directory.read("source") == "source")
        }
        await #expect(performing: { try await store.createDirectory("kv/made") }, throws: isRefused)
        for name in [marker, "log", "deep/file"] { #expect(try directory.read("app/kv/" + name) == "theirs") }
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.url("app/kv").path).count == 3)
        #expect(try await store.load("docs/a") == Data("ours".utf8))
    }
}
