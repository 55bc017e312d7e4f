import ForgeCrashTesting
import ForgeFileStore
import ForgeFileSystem
import ForgeStorage
import ForgeStorageTesting
import Foundation
import StoreCrashes
import SystemPackage
import TestDepth
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

@Suite("A bounded cache under crashes")
struct CacheCrashTests {
    @Test("that makes its entries durable loses none that was inserted, and never mixes")
    func durable() async throws {
        let calls: [StoreCall] = [
            .set("a", "1"), .set("a", "2", count: 5000), .remove("a"), .set("b", "3"), .removeAll,
        ]
        let report = try await forEachCrash(
            of: calls, in: CacheUnderCrash.self, limit: TestDepth.limit(25, deep: 5000),
            depth: TestDepth.limit(1, deep: 2))
        #expect(report.stateCount > 20)
    }

    @Test("that flushes nothing and evicts has no torn or foreign values, and keeps its limits afterwards")
    func evicting() async throws {
        let letters = Array("abcdef")
        func open(_ fileSystem: InMemoryFileSystem) throws -> BoundedCache<Data> {
            var options = CacheOptions()
            options.disk = CacheLimits(count: 2)
            return try BoundedCache(
                directory: URL(filePath: "/caches/values"), options: options, fileSystem: fileSystem)
        }
        func value(_ letter: Character) -> Data { Data(StoreValue(letter, count: 700).bytes) }
        try await forEachCrash(of: letters, limit: TestDepth.limit(30, deep: 2000), depth: 1) { fileSystem in
            try open(fileSystem)
        } perform: { letter, cache in
            await cache.insert(value(letter), for: String(letter))
            if letter == "c" { try await cache.remove("c") }
        } recover: { fileSystem, crash in
            let cache = try open(fileSystem)
            for letter in letters {
                let found = try await cache.value(for: String(letter)) { _ in .absent(expiresAfter: .zero) }
                guard found == nil || found == value(letter) else {
                    throw ConformanceViolation("\(letter) has \(found?.count ?? 0) other bytes")
                }
            }
            await cache.insert(value("g"), for: "g")
            let size = try await cache.sizeOnDisk()
            guard size <= 2 * 741, try await cache.value(for: "g", load: { Data() }) == value("g") else {
                throw ConformanceViolation("\(size) bytes after an insertion")
            }
        }
    }
}

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
