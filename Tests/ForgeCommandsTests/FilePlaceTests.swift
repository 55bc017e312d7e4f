import ArgumentParser
import ForgeStorage
import Foundation
import SystemPackage
import Testing

@testable import ForgeCommands

@Suite("A directory or file store that is copied to or from a server")
struct FilePlaceTests {
    let scratch: Scratch
    private let fileSystem = SystemFileSystem()

    init() throws {
        scratch = try Scratch()
    }

    private func home(_ text: String) throws -> Home {
        let (scheme, name) = try #require(text.splitAtBytes(":"))
        return try #require(Home(argument: "\(scheme):\(scratch.path(name))"))
    }

    private func link(_ path: String, to target: String) throws {
        try FileManager.default.createSymbolicLink(atPath: scratch.path(path), withDestinationPath: target)
    }

    /// A log that knows what was left out.
    private func log(_ source: String) throws -> TransferLog {
        TransferLog(try TransferArguments.parse([home(source).text, "tree:\(scratch.path("none"))", "--verify"]))
    }

    private func keys(_ home: String, _ log: TransferLog? = nil) async throws -> [String] {
        try await LocalFilePlace(self.home(home)).files(log).map(\.key)
    }

    @Test("as a source, it has every regular file, and a reason for everything else")
    func source() async throws {
        for path in ["s/a", "s/b/c", "s/back\\slash", "s/#tmp-0123456789abcdef"] { try scratch.plant(path) }
        try link("s/link", to: "a")
        let name = POSIXPath([0x62, 0xFF])
        let directory = try fileSystem.open(
            POSIXPath(scratch.url.appendingPathComponent("s")), .readOnly, options: [.directory])
        defer { fileSystem.discard(directory) }
        fileSystem.discard(
            try fileSystem.open(name, at: directory, .writeOnly, options: [.create], permissions: .ownerReadWrite))
        let log = try log("tree:s")
        #expect(try await keys("tree:s", log) == ["a", "b/c"])
        #expect(log.hasFailed)
        for left in ["link", "back\\slash", "#tmp-0123456789abcdef", name.shown] {
            #expect(log.isLeftOut(left), "\(left)")
        }
        #expect(!log.isLeftOut("a") && !log.isLeftOut("b/c"))
    }

    @Test("a directory that cannot be read is a failure of a source, and an error of a destination")
    func unreadable() async throws {
        try scratch.plant("s/zz")
        let path = try POSIXPath(scratch.url.appendingPathComponent("s"))
        defer { try? fileSystem.removeTree(path) }
        let name = POSIXPath(String(repeating: "d", count: 250))
        // Too deep for a path.
        var directory = try fileSystem.open(path, .readOnly, options: [.directory])
        for _ in 0..<18 {
            try fileSystem.createDirectory(name, at: directory, permissions: .ownerReadWriteExecute)
            let next = try fileSystem.open(name, at: directory, .readOnly, options: [.directory], permissions: [])
            try fileSystem.close(directory)
            directory = next
        }
        try fileSystem.close(directory)
        let log = try log("tree:s")
        #expect(try await keys("tree:s", log) == ["zz"])
        #expect(log.hasFailed)
        let failure = await #expect(throws: FileSystemError.self) { try await keys("tree:s") }
        #expect(failure?.errno == .fileNameTooLong)
    }

    @Test("as a destination, it has the files that may be deleted: nothing of a store, and no partial file in use")
    func destination() async throws {
        for path in ["t/a", "t/b/c", "t/#tmp-0123456789abcdef", "t/#tmp-0123456789abcdee", "t/#tmp-mine"] {
            try scratch.plant(path)
        }
        try link("t/link", to: "a")
        try link("t/#tmp-0123456789abcded", to: "a")
        try FileKVStore(at: scratch.url.appendingPathComponent("t/kv")).close()
        let locked = try fileSystem.open(
            POSIXPath(scratch.url.appendingPathComponent("t/#tmp-0123456789abcdee")), .readOnly)
        defer { fileSystem.discard(locked) }
        try fileSystem.lock(locked, .exclusive, waiting: false)
        #expect(try await keys("tree:t") == ["#tmp-0123456789abcdef", "a", "b/c"])
        let files = DiskFileStore(root: scratch.url.appendingPathComponent("fs"))
        for key in ["a", "log", "b/c"] { try await files.save(Data("x".utf8), to: key) }
        #expect(try await keys("file:fs") == ["a", "b/c", "log"])
        #expect(try await keys("tree:none").isEmpty)
    }

    @Test("opens regular files only, and follows no link")
    func opening() async throws {
        for path in ["s/a", "s/b/c", "outside/d"] { try scratch.plant(path) }
        try link("s/link", to: "a")
        try link("s/out", to: scratch.path("outside"))
        let place = try LocalFilePlace(home("tree:s"))
        #expect(try await place.open("b/c")?.sizeInBytes == 1)
        for absent in ["none", "none/a", "b", "a/b", "link", "out/d"] {
            #expect(try await place.open(absent) == nil, "\(absent)")
        }
        #expect(try await LocalFilePlace(home("tree:none")).open("a") == nil)
        #expect(place.isSameFile("a", "a") && !place.isSameFile("a", "b") && !place.isSameFile("none", "none"))
    }

    @Test("stores, replaces and deletes files of any size", arguments: ["tree:t", "file:t"])
    func storing(target: String) async throws {
        let long = String(repeating: "0123456789", count: 300_000)
        for (path, text) in [("s/a", "old"), ("s/b/c", long), ("s/empty", "")] { try scratch.plant(path, text) }
        let (from, to) = (try LocalFilePlace(home("tree:s")), try LocalFilePlace(home(target)))
        for key in ["a", "b/c", "empty"] {
            try await to.store(#require(from.open(key)), as: key, isPresent: false)
        }
        try scratch.plant("s/a", "new")
        try await to.store(#require(from.open("a")), as: "a", isPresent: true)
        try to.finish()
        for (key, text) in [("a", "new"), ("b/c", long), ("empty", "")] {
            #expect(try String(contentsOfFile: scratch.path("t/\(key)"), encoding: .utf8) == text, "\(key)")
        }
        try await to.delete("b/c")
        #expect(try await to.files(nil).map(\.key) == ["a", "empty"])
    }

    @Test("writes no file of a store in an ordinary directory")
    func presentStores() async throws {
        let store = try FileKVStore(at: scratch.url.appendingPathComponent("t/kv"))
        try store.set(KVKey<Int>("k"), value: 1)
        try store.close()
        try await DiskFileStore(root: scratch.url.appendingPathComponent("t/fs")).save(Data("x".utf8), to: "d/a")
        let log = try Data(contentsOf: scratch.url.appendingPathComponent("t/kv/log"))
        let place = try LocalFilePlace(home("tree:t"))
        for key in ["kv/log", "fs/d/a", "fs/d/new", "fs/new"] {
            await #expect(throws: PresentStore.self, "\(key)") {
                try await place.store(RemoteFile(Data("new".utf8)), as: key, isPresent: true)
            }
        }
        #expect(try Data(contentsOf: scratch.url.appendingPathComponent("t/kv/log")) == log)
        #expect(try String(contentsOfFile: scratch.path("t/fs/d/a"), encoding: .utf8) == "x")
        try await place.store(RemoteFile(Data("new".utf8)), as: "kv/note", isPresent: false)
    }

    @Test("stores nothing if the content does not have its checksum", arguments: ["tree:t", "file:t"])
    func damage(target: String) async throws {
        try scratch.plant("t/a", "old")
        let place = try LocalFilePlace(home(target))
        await #expect(throws: CopyDamage.self) {
            try await place.store(RemoteFile(Data("new".utf8), checksum: "00"), as: "a", isPresent: true)
        }
        #expect(try String(contentsOfFile: scratch.path("t/a"), encoding: .utf8) == "old")
    }
}
