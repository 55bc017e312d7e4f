import ArgumentParser
import ForgeStorage
import Foundation
import SystemPackage
import Testing

@testable import ForgeCommands

/// A file that has become shorter since its size was read.
private struct ShortenedFile: CopiedFile {
    let sizeInBytes: Int64 = 9
    let identity = "identity"
    let knownChecksum: String? = "00"

    func read(_ range: Range<Int64>) async throws -> Data { Data("new".utf8.dropFirst(Int(range.lowerBound))) }
    func checksumOfContent() async throws -> String { "00" }
    func requireUnchanged() {}
}

extension Scratch {
    func home(_ text: String) throws -> Home {
        let (scheme, name) = try #require(text.splitAtBytes(":"))
        return try #require(Home(argument: "\(scheme):\(path(name))"))
    }

    /// Every file below a directory with its content.
    func contents(_ name: String) throws -> [String: Data] {
        var found: [String: Data] = [:]
        for path in try FileManager.default.subpathsOfDirectory(atPath: self.path(name)) {
            var isDirectory: ObjCBool = false
            let file = url.appendingPathComponent("\(name)/\(path)")
            guard FileManager.default.fileExists(atPath: file.path, isDirectory: &isDirectory), !isDirectory.boolValue
            else { continue }
            found[path] = try Data(contentsOf: file)
        }
        return found
    }

    /// Makes a key-value store, directories of vaults and of a log, neither with a marker, a file store and a backup.
    func makeStores(in name: String) async throws {
        let url = self.url.appendingPathComponent(name)
        let store = try FileKVStore(at: url.appendingPathComponent("kv"))
        try store.set(KVKey<Int>("k"), value: 1)
        try store.close()
        for file in ["log", "#reserve"] { try copy("\(name)/kv/\(file)", to: "\(name)/log/\(file)") }
        try plant("\(name)/log/quarantine-records-1", "set aside")
        let vault = url.appendingPathComponent("vault")
        let key = try VaultKeyFile.loadOrCreate(at: vault.appendingPathComponent("key"))
        try VaultCrypt(at: vault.appendingPathComponent("v"), key: key).set("x", for: CryptKey(key: "token"))
        for file in try FileManager.default.contentsOfDirectory(atPath: vault.path) where file.hasPrefix("#") {
            try FileManager.default.removeItem(at: vault.appendingPathComponent(file))
        }
        try await DiskFileStore(root: url.appendingPathComponent("fs")).save(Data("x".utf8), to: "d/a")
        try plantBackup("\(name)/backup")
    }

    func plantBackup(_ path: String) throws {
        try plant("\(path)/manifest", #"{"format":"forge-backup","version":1}"# + "\n")
        try plant("\(path)/content/x", "saved")
    }

    #if os(Linux)
    /// Makes the descriptors of this process that lead to a file or directory lead to another file.
    func redirect(_ name: String, to other: FileDescriptor) throws {
        let numbers = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").filter { number in
            // The descriptors of other tests may be closed meanwhile.
            let place = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(number)")
            return place == path(name)
        }
        try #require(!numbers.isEmpty)
        for number in numbers { _ = try other.duplicate(as: FileDescriptor(rawValue: #require(CInt(number)))) }
        try other.close()
    }

    /// Makes a directory that this process has open impossible to flush: its descriptors only stand for the path then
    /// (`O_PATH`).
    func preventFlush(of name: String) throws {
        let options = FileDescriptor.OpenOptions(rawValue: 0o10_000_000)
        try redirect(name, to: FileDescriptor.open(FilePath(path(name)), .readOnly, options: options))
    }
    #endif
}

@Suite("A directory or file store that is copied to or from a server")
struct FilePlaceTests {
    let scratch: Scratch
    private let fileSystem = SystemFileSystem()

    init() throws {
        scratch = try Scratch()
    }

    private func home(_ text: String) throws -> Home { try scratch.home(text) }

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

    @Test("as a source, a file store has its files, and a reason for all that other programs have left in it")
    func storeAsSource() async throws {
        let files = DiskFileStore(root: scratch.url.appendingPathComponent("fs"))
        for key in ["a", "d/b"] { try await files.save(Data("x".utf8), to: key) }
        for path in ["fs/back\\slash", "fs/d/#tmp-note", "fs/#move-a"] { try scratch.plant(path) }
        try link("fs/link", to: "a")
        try FileKVStore(at: scratch.url.appendingPathComponent("fs/settings")).close()
        let log = try log("file:fs")
        #expect(try await keys("file:fs", log) == ["a", "d/b"])
        #expect(log.hasFailed)
        for left in ["back\\slash", "d/#tmp-note", "link", "settings", "#move-a"] {
            #expect(log.isLeftOut(left), "\(left)")
        }
        #expect(!log.isLeftOut("#store-files"))
    }

    @Test("as a source, it knows its files now, and whether the directory of one is gone", arguments: ["tree", "file"])
    func removedOrMoved(scheme: String) async throws {
        for path in ["s/a", "s/b/c", "s/back\\slash", "s/d/e"] { try scratch.plant(path) }
        try link("s/link", to: "a")
        let place = try LocalFilePlace(home("\(scheme):s"))
        #expect(try await place.keys() == ["a", "b/c", "d/e"])
        for path in ["s/a", "s/b/c", "s/d"] { try FileManager.default.removeItem(atPath: scratch.path(path)) }
        #expect(try await place.keys() == [])
        #expect(try place.isRemoved("a") && place.isRemoved("b/c") && !place.isRemoved("d/e"))
        try FileManager.default.removeItem(atPath: scratch.path("s"))
        #expect(try await place.keys() == [])
        #expect(try !place.isRemoved("a"))
    }

    @Test("a directory that is moved meanwhile is a failure of a source, and has nothing to delete in a destination")
    func movedDirectory() async throws {
        for path in ["s/a/x", "s/z/y"] { try scratch.plant(path) }
        func place() throws -> LocalFilePlace {
            let tree = try scratch.walked("s", moving: "s/z", to: "s/0", before: .open, of: "z")
            return try LocalFilePlace(home("tree:s"), reading: tree)
        }
        let log = try log("tree:s")
        #expect(try await place().files(log).map(\.key) == ["a/x"])
        #expect(log.hasFailed && log.isLeftOut("z"))
        try FileManager.default.moveItem(atPath: scratch.path("s/0"), toPath: scratch.path("s/z"))
        #expect(try await place().files(nil).map(\.key) == ["a/x"])
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

    @Test("as a destination, it has what is beside the files of stores and backups, marked or not, and none of them")
    func keptInDestination() async throws {
        try await scratch.makeStores(in: "t")
        for path in ["a", "kv/note", "log/note", "vault/note", "quarantine-note"] { try scratch.plant("t/\(path)") }
        #expect(try await keys("tree:t") == ["a", "log/note", "quarantine-note", "vault/note"])
    }

    #if os(Linux)
    @Test("it keeps nothing open but, for the flush at the end, one directory that was changed")
    func descriptors() async throws {
        for path in ["s/b/c", "t/d/e", "t/#note", "t/#tmp-0123456789abcdef"] { try scratch.plant(path) }
        do {
            let file = try await LocalFilePlace(home("tree:s")).open("b/c")
            #expect(try scratch.opened() == ["s/b/c"])
            withExtendedLifetime(file) {}
        }
        do {
            let place = try LocalFilePlace(home("tree:t"))
            #expect(try await place.files(nil).map(\.key) == ["#note", "#tmp-0123456789abcdef", "d/e"])
            #expect(try scratch.opened().isEmpty)
            try await place.delete("d/e")
            #expect(try scratch.opened() == ["t/d"])
            withExtendedLifetime(place) {}
        }
        do {
            let place = try LocalFilePlace(home("tree:t"))
            for key in ["n/m/o", "n/m/p"] {
                try await place.store(RemoteFile(Data("new".utf8)), as: key, isPresent: false)
                #expect(try scratch.opened() == ["t/n/m"])
            }
            withExtendedLifetime(place) {}
        }
        #expect(try scratch.opened().isEmpty)
    }

    @Test("what was stored is flushed at the end, and a flush that fails is an error")
    func flush() async throws {
        let place = try LocalFilePlace(home("tree:t"))
        try await place.store(RemoteFile(Data("new".utf8)), as: "d/a", isPresent: false)
        try place.finish()
        try scratch.preventFlush(of: "t/d")
        let failure = #expect(throws: FileSystemError.self) { try place.finish() }
        #expect(failure?.errno == .badFileDescriptor)
    }
    #endif

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
        // Nothing is known about a file whose name the system refuses.
        let name = String(repeating: "n", count: 300)
        let failure = await #expect(throws: SourceFailure.self) { try await place.open(name) }
        #expect(failure?.error.errno == .fileNameTooLong)
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

    @Test("writes no file of a store or backup in an ordinary directory, and says what is there")
    func presentStores() async throws {
        try await scratch.makeStores(in: "t")
        func paths() throws -> Set<String> {
            Set(try FileManager.default.subpathsOfDirectory(atPath: scratch.path("t")))
        }
        let before = (try paths(), try scratch.contents("t"))
        let place = try LocalFilePlace(home("tree:t"))
        for (key, text) in [
            ("kv/log", "key-value store"), ("log/log", "key-value store"), ("log/#reserve", "key-value store"),
            ("vault/v", "vaults"), ("vault/key", "vaults"), ("fs/d/a", "file store"), ("fs/d/new", "file store"),
            ("fs/new", "file store"), ("fs/new/deep/x", "file store"), ("backup/new", "backup"),
            ("backup/content/x", "backup"), ("backup/content/new/x", "backup"),
        ] {
            let failure = await #expect(throws: PresentStore.self, "\(key)") {
                try await place.store(RemoteFile(Data("new".utf8)), as: key, isPresent: true)
            }
            let expected = text == "backup" ? "the destination has a backup there" : nil
            #expect(failure?.description == expected ?? "the destination has a store there: \(text)")
            // A dry run asks for it.
            #expect(try place.obstacle(to: key)?.description == failure?.description)
        }
        #expect(try paths() == before.0 && scratch.contents("t") == before.1)
        for key in ["kv/note", "log/note", "vault/note"] {
            #expect(try place.obstacle(to: key)?.description == nil)
            try await place.store(RemoteFile(Data("new".utf8)), as: key, isPresent: false)
        }
        // A file store itself takes them.
        #expect(try LocalFilePlace(home("file:t/fs")).obstacle(to: "new/x")?.description == nil)
    }

    @Test("writes no file into the directory of a store below a file store that is not known")
    func unknownStore() async throws {
        try await DiskFileStore(root: scratch.url.appendingPathComponent("fs")).save(Data("x".utf8), to: "a")
        for name in ["#store-ledger", "d/b"] { try scratch.plant("fs/later/\(name)") }
        let place = try LocalFilePlace(home("file:fs"))
        for key in ["later/d/b", "later/new", "later/new/deep"] {
            let failure = await #expect(throws: PresentStore.self, "\(key)") {
                try await place.store(RemoteFile(Data("new".utf8)), as: key, isPresent: false)
            }
            #expect(failure?.description == "the destination has a store there: unknown store")
            #expect(try place.obstacle(to: key)?.description == failure?.description)
        }
        try await place.store(RemoteFile(Data("new".utf8)), as: "d/new", isPresent: false)
        #expect(try scratch.files("fs") == ["a": "x", "d/new": "new", "later/#store-ledger": "x", "later/d/b": "x"])
    }

    @Test("stores nothing if the content does not have its checksum", arguments: ["tree:t", "file:t"])
    func damage(target: String) async throws {
        try scratch.plant("t/a", "old")
        let place = try LocalFilePlace(home(target))
        await #expect(throws: CopyDamage.self) {
            try await place.store(RemoteFile(Data("new".utf8), checksum: "00"), as: "a", isPresent: true)
        }
        await #expect(throws: CopyDamage.self) { try await place.store(ShortenedFile(), as: "b", isPresent: false) }
        #expect(try String(contentsOfFile: scratch.path("t/a"), encoding: .utf8) == "old")
        let names = try FileManager.default.contentsOfDirectory(atPath: scratch.path("t"))
        #expect(names.filter { !POSIXPath($0).isStoreMarker } == ["a"], "\(names)")
    }

    @Test("only what a server does not permit is a refusal, which concerns one file")
    func refusals() async throws {
        let refused = FileStoreError(.notPermitted, .load, key: "a")
        let failure = await #expect(throws: RefusedFile.self) {
            try await RefusedFile.converting { () async throws -> Int in throw refused }
        }
        #expect(failure?.description == "\(refused)")
        let lost = await #expect(throws: FileStoreError.self) {
            try await RefusedFile.converting { () async throws -> Int in
                throw FileStoreError(.unavailable(.server), .load, key: "a")
            }
        }
        #expect(lost?.code == .unavailable(.server))
        #expect(try await RefusedFile.converting { 1 } == 1)
    }

    @Test("a file store lists its files in order, and then once each item that is none, with the reason")
    func listing() async throws {
        let files = DiskFileStore(root: scratch.url.appendingPathComponent("fs"))
        for number in 0..<30 { try await files.save(Data("x".utf8), to: "k\(10 + number * 7 % 30)") }
        try await files.save(Data("x".utf8), to: "d/a")
        try scratch.plant("fs/back\\slash")
        try link("fs/link", to: "k10")
        try FileKVStore(at: scratch.url.appendingPathComponent("fs/d/settings")).close()
        // A file that is still being written is not listed.
        let writer = try await files.newFile("new", if: .absent)
        try await writer.write(Data("x".utf8))
        let settings = "d/settings: the root of another store: key-value store"
        let slash = "back\\slash: \(try #require(POSIXPath("back\\slash").keyRefusal))"
        let keys = ["d/a"] + (10..<40).map { "k\($0)" } + ["link"]
        for (directory, keys, items) in [("", keys, [slash, settings]), ("d", ["d/a"], [settings])] {
            var (listed, others): ([String], [String]) = ([], [])
            try await files.forEachFile(in: directory) {
                listed.append($0.key)
            } unlisted: {
                others.append("\($0.shown): \($1)")
            }
            #expect(listed == keys)
            #expect(others == items)
        }
        await writer.cancel()
    }

    @Test(
        "a list names a directory that has appeared meanwhile if another one is gone: its files may be listed nowhere",
        arguments: [true, false])
    func listingDuringMove(isMove: Bool) async throws {
        let files = DiskFileStore(root: scratch.url.appendingPathComponent("fs"))
        for key in ["d/a", "e/b", "e/f/c"] { try await files.save(Data("x".utf8), to: key) }
        var (listed, others): ([String], [String]) = ([], [])
        try await files.forEachFile(in: "") {
            if listed.isEmpty, isMove {
                try FileManager.default.moveItem(atPath: scratch.path("fs/d"), toPath: scratch.path("fs/c"))
            } else if listed.isEmpty {
                try scratch.plant("fs/c/new")
            }
            listed.append($0.key)
        } unlisted: {
            others.append("\($0.shown): \($1)")
        }
        #expect(listed == ["d/a", "e/b", "e/f/c"])
        #expect(others == (isMove ? ["c: it appeared after the listing had begun: its files are not listed"] : []))
    }

    #if S3
    @Test("keys of a store on a server name the same file only if their bytes are equal")
    func serverKeys() throws {
        let files = try StoreURL("s3://bucket").openFileStore(ServerEnvironment(["AWS_REGION": "us-east-1"]))
        let place = ServerFilePlace(files: files)
        #expect(place.isSameFile("a", "a") && !place.isSameFile("a", "A") && !place.isSameFile("e\u{301}", "\u{E9}"))
        // A server moves no directories.
        #expect(try place.isRemoved("a"))
    }
    #endif
}
