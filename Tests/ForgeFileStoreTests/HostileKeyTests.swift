import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import TestDepth
import Testing

@Suite("No key leads out of a store")
struct HostileKeyTests {
    @Test("the table has at least 300 different keys of both kinds")
    func table() {
        #expect(HostileKeys.all.count >= 300)
        #expect(Set(HostileKeys.all.map { Array($0.key.utf8) }).count == HostileKeys.all.count)
        #expect(HostileKeys.all.contains { $0.expectation == .plain })
        #expect(HostileKeys.all.allSatisfy { !$0.description.contains("\n") })
    }

    @Test(
        "every verb × every hostile key: refused, or a harmless file inside",
        arguments: [StoreKind.diskStoreOnDisk, .inMemoryStore])
    func everyVerb(_ kind: StoreKind) async throws {
        let directory = try TemporaryDirectory()
        try directory.write("canary 1", to: "outside/canary.txt")
        try directory.write("canary 2", to: "storeroom/canary.txt")
        let store: any FileStoring =
            switch kind {
            case .inMemoryStore: InMemoryFileStore()
            default: DiskFileStore(root: directory.url("store"), options: .init(durability: .none))
            }
        let outside = try [directory.tree("outside"), directory.tree("storeroom")]
        let beside = try names(of: directory)
        var escapes = 0
        for hostile in TestDepth.sample(HostileKeys.all, every: 3) {
            try await store.deleteAll()
            try await store.createDirectory("a/b")
            try await tryEveryVerb(hostile, store, directory)
            let isUntouched =
                try [directory.tree("outside"), directory.tree("storeroom")] == outside
                && names(of: directory).subtracting(["source"]) == beside
            if !isUntouched { escapes += 1 }
            #expect(isUntouched, "\(hostile) reached outside")
        }
        #expect(escapes == 0)
    }

    private func names(of directory: TemporaryDirectory) throws -> Set<String> {
        Set(try FileManager.default.contentsOfDirectory(atPath: directory.url.path)).union(["store"])
    }

    private func tryEveryVerb(
        _ hostile: HostileKey, _ store: any FileStoring, _ directory: TemporaryDirectory
    ) async throws {
        let key = hostile.key
        let content = Data("content".utf8)
        func use(_ verb: String, _ body: () async throws -> Void) async {
            do {
                try await body()
                #expect(hostile.expectation == .plain, "\(verb) took \(hostile)")
            } catch let error as FileStoreError {
                guard case .invalidKey = error.code else {
                    Issue.record("\(verb) of \(hostile): \(error)")
                    return
                }
                #expect(hostile.expectation == .refused, "\(verb): \(error)")
            } catch {
                Issue.record("\(verb) of \(hostile): untyped error \(error)")
            }
        }
        func expectEqual<Value: Equatable>(_ value: Value, _ expected: Value, _ what: String) throws {
            #expect(value == expected, "\(what)")
        }
        await use("save") { try await store.save(content, to: key) }
        await use("load") { try expectEqual(try await store.load(key), content, "\(hostile)") }
        #expect(await store.exists(key) == (hostile.expectation == .plain))
        await use("info") { try expectEqual(try await store.info(key).sizeInBytes, 7, "\(hostile)") }
        await use("size") { try expectEqual(try await store.size(key), 7, "\(hostile)") }
        await use("delete") { try await store.delete(key) }
        await use("exclusive save") { try await store.save(content, to: key, overwrite: false) }
        await use("delete again") { try await store.delete(key) }
        try directory.write("content", to: "source")
        await use("copy") { try await store.copy(from: directory.url("source"), to: key) }
        await use("move") { try await store.move(from: directory.url("source"), to: key) }
        await use("delete of the moved file") { try await store.delete(key) }
        await use("createDirectory") { try await store.createDirectory(key) }
        if !key.isEmpty {
            await use("list") { _ = try await store.list(in: key) }
            await use("recursive list") { _ = try await store.list(in: key, recursive: true) }
        }
        await use("deleteDirectory") { try await store.deleteDirectory(key) }
        if let disk = store as? DiskFileStore {
            await use("url") {
                let path = try POSIXPath(await disk.url(for: key))
                #expect(path == directory.path("store/" + key), "\(hostile)")
            }
        }
    }

    @Test("every component of a listed key can be used as a key")
    func listedKeys() async throws {
        let store = InMemoryFileStore()
        let plain = HostileKeys.all.filter { $0.expectation == .plain }
        for (number, hostile) in plain.enumerated() {
            let key = "n\(number)/" + hostile.key
            guard key.utf8.count <= RelativeKey.maximumLength, key.split(separator: "/").count <= 32 else { continue }
            try await store.save(Data("\(number)".utf8), to: key)
        }
        let files = try await store.list(recursive: true).filter { !$0.isDirectory }
        #expect(files.count > plain.count - 5)
        for file in files {
            let number = file.key.dropFirst().prefix { $0 != "/" }
            #expect(try await store.load(file.key) == Data(String(number).utf8))
        }
    }
}
