import ForgeCrashTesting
import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Testing

@Suite("A file store after a process was killed before flushing a name")
struct KilledFileStoreTests {
    private func store(_ fileSystem: InMemoryFileSystem) -> DiskFileStore {
        DiskFileStore(root: URL(filePath: "/files"), fileSystem: fileSystem)
    }

    @Test("a directory that is reported as absent stays absent", arguments: ["x", "x/z"])
    func absence(_ key: String) async throws {
        let report = try await forEachCrash(limit: 2000) { fileSystem in
            try await store(fileSystem).save(Data("1".utf8), to: "x/z")
        } run: { fileSystem, _ in
            try await store(fileSystem).deleteDirectory("x")
        } recover: { fileSystem, crash in
            let store = store(fileSystem)
            if crash.acknowledged.contains("absent") { try demand(!store.exists("x/z"), "absent file reappeared") }
            do {
                try await key == "x" ? store.deleteDirectory(key) : store.delete(key)
            } catch let error as FileStoreError where error.code == .notFound {}
            crash.acknowledge("absent")
        }
        #expect(report.stateCountAfterKills > 0, "\(report)")
    }

    @Test("a file that is reported to exist is kept")
    func presence() async throws {
        let report = try await forEachCrash(limit: 2000) { fileSystem in
            try await store(fileSystem).save(Data("1".utf8), to: "b")
        } run: { fileSystem, _ in
            try await store(fileSystem).save(Data("1".utf8), to: "a", overwrite: false)
        } recover: { fileSystem, crash in
            let store = store(fileSystem)
            if crash.acknowledged.contains("exists") { try demand(store.exists("a"), "an existing file is lost") }
            do {
                try await store.save(Data("2".utf8), to: "a", overwrite: false)
            } catch let error as FileStoreError where error.code == .alreadyExists {}
            crash.acknowledge("exists")
        }
        #expect(report.stateCountAfterKills > 0, "\(report)")
    }
}
