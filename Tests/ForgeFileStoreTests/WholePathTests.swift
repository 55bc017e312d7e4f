import ForgeFileStore
import ForgeFileSystem
import Foundation
import Testing

/// The first read of a store opens the root; later ones resolve the whole path of a key.
@Suite("Reads of a store that has read before")
struct WholePathTests {
    private let directory: TemporaryDirectory
    private let store: DiskFileStore

    init() throws {
        directory = try TemporaryDirectory()
        for root in ["store", "other"] {
            for key in ["f", "d/f", "d/e/f"] { try directory.write("\(key) in \(root)", to: "\(root)/\(key)") }
        }
        // On some systems the path of temporary directories contains a link.
        let container = try #require(realpath(directory.url.path, nil))
        defer { free(container) }
        store = DiskFileStore(root: URL(filePath: String(cString: container) + "/store"))
    }

    private func contents(_ store: DiskFileStore, _ keys: [String] = ["f", "d/f", "d/e/f"]) async throws -> [String] {
        var contents: [String] = []
        for key in keys {
            let content = try await store.load(key)
            #expect(store.exists(key))
            #expect(try await store.info(key).sizeInBytes == content.count)
            #expect(try await store.reader(for: key).readAll() == content)
            contents.append(String(decoding: content, as: UTF8.self))
        }
        return contents
    }

    private func expectRefused(
        _ key: String, _ code: FileStoreError.Code, sourceLocation: SourceLocation = #_sourceLocation
    ) async {
        await #expect(performing: { try await store.load(key) }, throws: hasCode(code))
        await #expect(performing: { try await store.reader(for: key) }, throws: hasCode(code))
    }

    private func move(_ old: String, to new: String) throws {
        try FileManager.default.moveItem(at: directory.url(old), to: directory.url(new))
    }

    private func link(_ name: String, to target: String) throws {
        try FileManager.default.createSymbolicLink(at: directory.url(name), withDestinationURL: directory.url(target))
    }

    @Test("find what is in the directory that is at the path now")
    func replacedRoot() async throws {
        for _ in 0..<2 { #expect(try await contents(store) == ["f in store", "d/f in store", "d/e/f in store"]) }
        try move("store", to: "old")
        for key in ["f", "d/f", "d/e/f"] {
            await expectRefused(key, .notFound)
            #expect(!store.exists(key))
        }
        try move("other", to: "store")
        #expect(try await contents(store) == ["f in other", "d/f in other", "d/e/f in other"])
        try move("store", to: "other")
        try directory.write("not a directory", to: "store")
        await expectRefused("f", .unavailable(.inputOutput))
        await expectRefused("d/f", .unavailable(.inputOutput))
    }

    @Test("follow a link to the root, but none below it")
    func links() async throws {
        _ = try await contents(store)
        try link("store/link", to: "other/f")
        try link("store/directory", to: "other/d")
        try link("store/d/directory", to: "other/d/e")
        for _ in 0..<2 {
            await expectRefused("link", .unsafe(.symbolicLink))
            for key in ["directory/f", "directory/e/f", "d/directory/f"] {
                await expectRefused(key, .unsafe(.symbolicLink))
                #expect(!store.exists(key))
                await #expect(performing: { try await store.info(key) }, throws: hasCode(.unsafe(.symbolicLink)))
            }
            #expect(try await store.info("link").kind == .other)
            #expect(try await contents(store) == ["f in store", "d/f in store", "d/e/f in store"])
        }
        try move("store", to: "old")
        try link("store", to: "other")
        for _ in 0..<2 { #expect(try await contents(store) == ["f in other", "d/f in other", "d/e/f in other"]) }
        // The link is found once; afterwards keys are resolved from the open root, which still follows no link below
        // it.
        try link("other/directory", to: "old/d")
        await expectRefused("directory/f", .unsafe(.symbolicLink))
    }
}
