import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage
import Testing

@Suite("Directories of other programs under crashes")
struct ForeignDirectoryCrashTests {
    @Test("a directory is durable together with parents that other programs have not flushed")
    func ancestors() async throws {
        try await forEachCrash { fileSystem, run in
            try fileSystem.createDirectory("/a")
            try fileSystem.createDirectory("/a/b")
            try fileSystem.makeDirectories("/a/b/c")
            run.acknowledge("/a/b/c")
        } recover: { fileSystem, crash in
            for path in crash.acknowledged { try demand(fileSystem.has(path), "\(path) is lost") }
        }
    }

    @Test("a file is durable in a directory that replaced a flushed one and reuses its inode number")
    func successor() async throws {
        try await forEachCrash { fileSystem, run in
            let store = try StoreDirectory("/store", on: fileSystem)
            let key = try RelativeKey("d/x")
            try [UInt8]([1]).withUnsafeBytes { try store.replace(key, with: $0.bytes) }
            try fileSystem.unlink("/store/d/x")
            try fileSystem.removeDirectory("/store/d")
            try fileSystem.createDirectory("/store/d")
            try [UInt8]([2]).withUnsafeBytes { try store.replace(key, with: $0.bytes) }
            run.acknowledge("saved")
        } recover: { fileSystem, crash in
            guard !crash.acknowledged.isEmpty else { return }
            try demand(fileSystem.has("/store/d/x"), "the file is lost")
        }
    }
}
