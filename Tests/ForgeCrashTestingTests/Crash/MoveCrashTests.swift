import ForgeCrashTesting
import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import TestDepth
import Testing

@Suite("Moves into a file store under crashes")
struct MoveCrashTests {
    private static func store(on fileSystem: InMemoryFileSystem) -> DiskFileStore {
        DiskFileStore(root: URL(filePath: "/store"), fileSystem: fileSystem)
    }

    /// The places where a crash may leave the source of a move to a key.
    private static func places(_ key: String, on fileSystem: InMemoryFileSystem) throws -> [POSIXPath] {
        let root = try fileSystem.contentsOfDirectory(at: URL(filePath: "/store")).map(\.lastPathComponent)
        let moved = root.filter { $0.hasPrefix("#move-") }.map { POSIXPath("/store/" + $0) }
        return moved + ["/in/source", POSIXPath("/store/" + key)]
    }

    @Test(
        "the key has the old file or the source, and the source is at the key, its own name or its private name",
        arguments: ["file", "d/file"])
    func move(_ key: String) async throws {
        let path = POSIXPath("/store/" + key)
        let report = try await forEachCrash(limit: TestDepth.limit(400, deep: 20_000)) { fileSystem in
            try fileSystem.createDirectory("/in")
            try fileSystem.write(Data("source".utf8), to: URL(filePath: "/in/source"))
            try await Self.store(on: fileSystem).save(Data("old".utf8), to: key)
        } run: { fileSystem, run in
            try await Self.store(on: fileSystem).move(from: URL(filePath: "/in/source"), to: key)
            run.acknowledge("moved")
        } recover: { fileSystem, crash in
            // The next store that writes removes leftovers of the killed one.
            let store = Self.store(on: fileSystem)
            try await store.save(Data("probe".utf8), to: "d/probe")
            let content = try fileSystem.readFile(path)
            try demand(["old", "source"].map { Array($0.utf8) }.contains(content), "the key has \(content)")
            let found = try Self.places(key, on: fileSystem).filter {
                try fileSystem.exists($0) && fileSystem.readFile($0) == Array("source".utf8)
            }
            try demand(!found.isEmpty, "the source is lost")
            guard !crash.acknowledged.isEmpty else { return }
            try demand(found == [path], "the source is at \(found) after the move")
            try demand(try await store.load(key) == Data("source".utf8), "the key cannot be loaded")
        }
        #expect(report.stateCount > 20)
    }
}
