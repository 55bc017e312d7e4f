import Crypto
import ForgeStorage
import Foundation
import SystemPackage
import Testing

struct CheckTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    /// Flips one bit in the middle of a file.
    private func damage(_ url: URL) throws {
        var bytes = try Data(contentsOf: url)
        bytes[bytes.count / 2] ^= 0x10
        try bytes.write(to: url)
    }

    @Test("the demo's stores are intact, and check changes nothing")
    func intact() throws {
        #expect(try CommandRun(["demo", "--keep", "--directory", scratch.path("demo")]).status == 0)
        for _ in 0..<2 {
            let run = try CommandRun(["check", scratch.path("demo"), "--key-file", scratch.path("demo/vault-key")])
            #expect(run.status == 0, "\(run.errors)")
            #expect(run.output.contains("intact (3 keys)"))
            #expect(run.output.contains("intact (1 secret)"))
            #expect(run.output.hasSuffix("8 checked, 0 damaged\n"), "\(run.output)")
        }
        let withoutKey = try CommandRun(["check", scratch.path("demo")])
        #expect(withoutKey.output.contains("give --key-file"))
    }

    @Test(
        "damage is reported and sets the exit status",
        arguments: ["settings/log", "secrets/vault", "images/board_background.cache"])
    func damaged(path: String) throws {
        #expect(try CommandRun(["demo", "--keep", "--directory", scratch.path("demo")]).status == 0)
        try damage(scratch.url.appendingPathComponent("demo/\(path)"))
        let run = try CommandRun([
            "check", scratch.path("demo"), "--key-file", scratch.path("demo/vault-key"), "--json",
        ])
        #expect(run.status == 1)
        #expect(try paths(damagedIn: run) == [path])
    }

    @Test("temporary files, links and quarantined data are reported, but not as damage")
    func oddities() throws {
        #expect(try CommandRun(["kv", "set", scratch.path("store"), "key", "1"]).status == 0)
        for name in ["#tmp-abcdefghijklmnop", "quarantine-records-1"] {
            try Data("x".utf8).write(to: scratch.url.appendingPathComponent("store/\(name)"))
        }
        try FileManager.default.createSymbolicLink(atPath: scratch.path("store/link"), withDestinationPath: "/etc")
        let run = try CommandRun(["check", scratch.path("store")])
        #expect(run.status == 0, "\(run.errors)")
        #expect(run.output.contains("temporary file"))
        #expect(run.output.contains("quarantine"))
        #expect(run.output.contains("symbolic link"))
        #expect(run.output.contains("0 damaged, 1 skipped"))
    }

    @Test("every kind of file is listed with its state and details, and counted in the summary")
    func kinds() async throws {
        let scratch = try await StoreFixture().scratch
        let images = ImageCacheManager(cacheDirectory: scratch.url.appendingPathComponent("images"))
        try images.cacheImage(id: "a", data: Data([1]))
        // Sparse: the details tell that they were read.
        for path in ["files/#tmp-abcdefghijklmnop", "kv/quarantine-records-1"] {
            try scratch.plant(path)
            try #require(truncate(scratch.path(path), 8 << 20) == 0)
        }
        try FileManager.default.createSymbolicLink(atPath: scratch.path("link"), withDestinationPath: "kv")
        try #require(mkfifo(scratch.path("pipe"), 0o600) == 0)
        let words = ["check", scratch.url.path, "--key-file", scratch.path("vault/key")]
        let run = try CommandRun(words + ["--json"])
        #expect(run.status == 0, "\(run.errors)")
        let rows = try run.rows().map { row -> String in
            let texts = ["path", "kind", "state"].map { row[$0] as? String ?? "" }
            let details = (row["details"] as? [String] ?? []).joined(separator: "; ")
            return "\(texts.joined(separator: ", ")): \(details)"
        }
        let sparse = "sparse; read 1.0 MiB, skipped holes"
        let unrecorded = "no store below the checked directory has recorded it; no store removes it"
        let expected: [String] = [
            "files/#tmp-abcdefghijklmnop, temporary file, readable: \(unrecorded); \(sparse)",
            "files/a.txt, file, readable: ", "images/a.cache, cached image, intact: ",
            "kv/log, key-value store, intact: 1 key",
            "kv/quarantine-records-1, quarantine, readable: unreadable data that a store set aside; \(sparse)",
            "link, symbolic link, skipped: ", "pipe, FIFO, skipped: ", "vault/key, vault key, intact: ",
            "vault/v, vault, intact: 1 secret",
        ]
        #expect(rows == expected)
        #expect(try run.rows().compactMap { $0["bytes"] as? Int }.prefix(2) == [8 << 20, 4])
        let summary = try run.summary()
        let counts = ["checked", "damaged", "unverified", "skipped"].map { summary[$0] as? Int }
        #expect(counts == [7, 0, 0, 2])
        let output = try CommandRun(words).output
        #expect(output.hasSuffix("intact (1 secret)\n7 checked, 0 damaged, 2 skipped\n"), "\(output)")
    }

    @Test("files with a second hard link are readable, and their stores read them")
    func hardLinks() async throws {
        let fixture = try await StoreFixture()
        let root = fixture.scratch.url
        let snapshot = root.appending(path: "snapshot")
        try FileManager.default.createDirectory(at: snapshot, withIntermediateDirectories: false)
        for name in ["files/a.txt", "vault/v", "vault/#lock-vaults", "vault/#store-vaults"] {
            try FileManager.default.linkItem(
                at: root.appending(path: name), to: snapshot.appending(path: URL(filePath: name).lastPathComponent))
        }
        let run = try CommandRun(["check", root.path, "--json"])
        #expect(run.status == 0, "\(run.errors)")
        #expect(try paths(damagedIn: run) == [])
        let get = try CommandRun(["file", "get", root.appending(path: "files").path, "a.txt"])
        #expect(get.status == 0 && get.output == "text", "\(get.errors)")
    }

    @Test("a missing directory is one line on standard error")
    func missing() throws {
        let run = try CommandRun(["check", scratch.path("typo")])
        #expect(run.status == 4)
        #expect(run.errorLines.count == 1)
    }

    @Test("a key file that a vault refuses is damaged", arguments: ["altered", "cut short", "readable by all"])
    func damagedKeyFile(how: String) async throws {
        let fixture = try await StoreFixture()
        let key = fixture.scratch.url.appendingPathComponent("vault/key")
        #expect(try CommandRun(["check", fixture.scratch.url.path]).output.contains("intact"))
        switch how {
        case "altered": try damage(key)
        case "cut short": try #require(truncate(key.path, 30) == 0)
        default: try #require(chmod(key.path, 0o644) == 0)
        }
        let run = try CommandRun(["check", fixture.scratch.url.path, "--json"])
        #expect(run.status == 1)
        #expect(try paths(damagedIn: run) == ["vault/key"])
    }

    @Test("a backup lists the damaged files that a check lists, but no key for being readable by others")
    func damageInBackup() throws {
        try ImageCacheManager(cacheDirectory: scratch.url.appendingPathComponent("s/images"))
            .cacheImage(id: "a", data: Data([1]))
        try damage(scratch.url.appendingPathComponent("s/images/a.cache"))
        for name in ["altered", "open"] {
            let directory = scratch.url.appendingPathComponent("s/\(name)")
            let key = try VaultKeyFile.loadOrCreate(at: directory.appendingPathComponent("key"))
            try VaultCrypt(at: directory.appendingPathComponent("vault"), key: key).set("x", for: CryptKey(key: "a"))
        }
        try damage(scratch.url.appendingPathComponent("s/altered/key"))
        for (name, mode) in [("altered", 0o600), ("open", 0o644)] {
            try #require(chmod(scratch.path("s/\(name)/key"), mode_t(mode)) == 0)
        }
        let store = try FileKVStore(at: scratch.url.appendingPathComponent("kv"))
        for number in 0..<3 { try store.set(KVKey<Int>("key.\(number)"), value: number) }
        try store.close()
        var log = try Data(contentsOf: scratch.url.appendingPathComponent("kv/log"))
        log[64 + 25] ^= 0x10
        // In a directory that no store has marked.
        try scratch.plant("s/copy/log", log)
        let run = try CommandRun(["backup", scratch.path("s"), scratch.path("b"), "--json"])
        #expect(run.status == 2, "\(run.errors)")
        let failed = try run.rows().map { "\($0["path"] as? String ?? ""): \($0["reason"] as? String ?? "")" }
        let expected = [
            "altered/key: damaged, copied as it is: vault key: loadKey in ",
            "copy/log: damaged, copied as it is: key-value store: 2 keys; damaged records at bytes 64 to ",
            "images/a.cache: damaged, copied as it is: cached image: the checksum is wrong",
        ]
        #expect(failed.count == 3 && zip(failed, expected).allSatisfy { $0.hasPrefix($1) }, "\(failed)")
        #expect(try Data(contentsOf: scratch.url.appendingPathComponent("b/content/copy/log")) == log)
    }

    @Test("a log of a backup that was cut, between two records too, is damaged, and left as it is by a repair")
    func cutLogInBackup() throws {
        let store = try FileKVStore(at: scratch.url.appendingPathComponent("s/kv"))
        for number in 0..<100 { try store.set(KVKey<Int>("key.\(number)"), value: number) }
        try store.close()
        try scratch.plant("s/note", "text")
        #expect(try CommandRun(["backup", scratch.path("s"), scratch.path("b")]).status == 0)
        let log = scratch.url.appendingPathComponent("b/content/kv/log")
        let whole = try Data(contentsOf: log)
        // The header alone, and all but the end of the last record.
        for (count, place) in [(64, "b"), (whole.count - 1, "b"), (whole.count - 1, ""), (whole.count, "b")] {
            try whole.prefix(count).write(to: log)
            let isCut = count < whole.count
            let run = try CommandRun(["check", scratch.path(place), "--json"])
            #expect(run.status == (isCut ? 1 : 0), "\(count): \(run.output)")
            #expect(try paths(damagedIn: run).map { $0.hasSuffix("content/kv/log") } == (isCut ? [true] : []))
            let known = "the manifest of the backup has \(whole.count) bytes and 100 keys"
            #expect(run.output.contains(known) == isCut, "\(run.output)")
            #expect(try CommandRun(["repair", scratch.path(place)]).status == (isCut ? 2 : 0))
            #expect(try Data(contentsOf: log).count == count)
        }
        try scratch.plant("b/content/note", "longer text")
        #expect(try paths(damagedIn: CommandRun(["check", scratch.path("b"), "--json"])) == ["content/note"])
        // A manifest that is not whole is no reason to find damage: the backup may be in progress.
        let manifest = scratch.url.appendingPathComponent("b/manifest")
        try Data(contentsOf: manifest).dropLast(20).write(to: manifest)
        #expect(try CommandRun(["check", scratch.path("b")]).status == 0)
    }

    @Test("JSON contains paths unchanged, including control characters")
    func controlCharacters() throws {
        try Data("x".utf8).write(to: scratch.url.appendingPathComponent("a\nb\u{1B}c\u{9B}"))
        let run = try CommandRun(["check", scratch.url.path, "--json"])
        let rows = try run.rows()
        #expect(rows.map { $0["path"] as? String } == ["a\nb\u{1B}c\u{9B}"])
        #expect(try CommandRun(["check", scratch.url.path]).output.contains("a\\x0ab\\x1bc\\xc2\\x9b"))
    }

    private func paths(damagedIn run: CommandRun) throws -> [String] {
        let rows = try run.rows()
        return rows.filter { $0["state"] as? String == "damaged" }.compactMap { $0["path"] as? String }
    }
}

@Suite("Temporary files in a check")
struct CheckTemporaryFilesTests {
    private let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    /// The rows of `check`, the details by path.
    private func details() throws -> [String: String] {
        let run = try CommandRun(["check", scratch.url.path, "--json"])
        #expect(run.status == 0, "\(run.errors)")
        let rows = try run.rows()
        return Dictionary(
            uniqueKeysWithValues: rows.map { row in
                (row["path"] as? String ?? "", (row["details"] as? [String] ?? []).joined(separator: "; "))
            })
    }

    private func listing() throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: scratch.url.path).sorted()
    }

    @Test("a recorded file is in use while its owner writes, and orphaned afterwards; nothing is removed")
    func recorded() async throws {
        let store = DiskFileStore(root: scratch.url.appendingPathComponent("files"))
        try await store.save(Data("text".utf8), to: "d/a.txt")
        let writer = try await store.writer(for: "d/b.txt")
        let record = try Data(contentsOf: scratch.url.appendingPathComponent("files/#journal-0"))
        let id = String(decoding: record[12..<28], as: UTF8.self)
        let recorded = ["files/d/#tmp-\(id)-0", "files/d/#trash-\(id)-0"]
        try scratch.plant(recorded[0])
        try scratch.plant(recorded[1] + "/x")
        try scratch.plant("files/#tmp-\(id)-7")
        try scratch.plant("files/#tmp-abcdefghijklmnop")
        try scratch.plant("files/#move-abcdefghijklmnop")
        let before = try listing()

        let alive = try details()
        for path in recorded { #expect(alive[path]?.hasPrefix("in use") == true, "\(alive)") }
        #expect(alive[recorded[1] + "/x"] == nil)
        // The store above the directory has recorded them.
        let below = try CommandRun(["check", scratch.path("files/d"), "--json"]).rows()
        #expect(below.map { $0["kind"] as? String } == ["temporary file", "temporary directory", "file"])
        #expect(below.map { $0["state"] as? String } == ["readable", "skipped", "readable"])
        #expect(below.map { $0["bytes"] as? Int } == [1, 0, 4])
        let unrecorded = ["no store below the checked directory has recorded it; no store removes it"]
        let expected: [[String]?] = [unrecorded, unrecorded, []]
        #expect(below.map { $0["details"] as? [String] } == expected)
        await writer.cancel()
        try scratch.plant(recorded[0])
        let dead = try details()
        for path in recorded {
            #expect(dead[path]?.contains("orphaned: its process has ended; the next process") == true, "\(dead)")
        }
        #expect(dead["files/#tmp-\(id)-7"]?.contains("orphaned: its process has ended and no record") == true)
        #expect(dead["files/#tmp-abcdefghijklmnop"]?.contains("no store removes it") == true)
        #expect(dead["files/#move-abcdefghijklmnop"]?.contains("a move into the store") == true)
        #expect(dead["files/d/a.txt"] == "")
        #expect(try listing() == before)
    }

    @Test("the temporary files of key-value stores and vaults are reported as such")
    func fixedNames() async throws {
        let fixture = try await StoreFixture()
        for path in ["kv/#log-new", "kv/#quarantine-new", "vault/#tmp-of-vaults"] {
            try Data("x".utf8).write(to: fixture.scratch.url.appendingPathComponent(path))
        }
        let run = try CommandRun(["check", fixture.scratch.url.path])
        #expect(run.status == 0, "\(run.errors)")
        let lines = run.output.split(separator: "\n").filter { $0.contains("the next opening or change of the store") }
        #expect(lines.count == 3, "\(run.output)")
    }

    @Test("a missing key file is an error, not damage of the vaults")
    func missingKeyFile() async throws {
        let fixture = try await StoreFixture()
        let run = try CommandRun(["check", fixture.scratch.url.path, "--key-file", fixture.scratch.path("typo")])
        #expect(run.status == 4)
        #expect(run.output.isEmpty)
        #expect(run.errors.contains("there is no key file at"), "\(run.errors)")
    }
}

@Suite("check on unusual trees")
struct CheckUnusualTreeTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    @Test("a directory that is too deep is one short finding among the others")
    func tooDeep() throws {
        let fileSystem = SystemFileSystem()
        let root = scratch.url.appendingPathComponent("tree")
        let mode: FilePermissions = [.ownerReadWriteExecute]
        let name = POSIXPath(String(repeating: "d", count: 250))
        try fileSystem.makeDirectories(POSIXPath(root))
        defer { try? fileSystem.removeItem(at: root) }
        var directory = try fileSystem.open(POSIXPath(root), .readOnly, options: [.directory], permissions: [])
        for _ in 0..<18 {
            try fileSystem.createDirectory("#trash-abcdefghabcdefgh-0", at: directory, permissions: mode)
            try fileSystem.createDirectory(name, at: directory, permissions: mode)
            let next = try fileSystem.open(name, at: directory, .readOnly, options: [.directory], permissions: [])
            try fileSystem.close(directory)
            directory = next
        }
        try fileSystem.close(directory)
        try Data("x".utf8).write(to: root.appendingPathComponent("zz"))
        let run = try CommandRun(["check", root.path])
        #expect(run.status == 1)
        let lines = run.output.split(separator: "\n")
        #expect(lines.contains { $0.contains("(ENAMETOOLONG)") && $0.contains("damaged") })
        #expect(lines.contains { $0.hasPrefix("zz ") })
        #expect(lines.allSatisfy { $0.count < 800 }, "\(lines.map(\.count))")
    }

    @Test("the holes of a sparse file are skipped and reported", .timeLimit(.minutes(10)))
    func sparse() throws {
        let url = scratch.url.appendingPathComponent("sparse")
        try Data("data".utf8).write(to: url)
        try #require(truncate(url.path, 7 << 40) == 0)
        let run = try CommandRun(["check", scratch.url.path])
        #expect(run.status == 0, "\(run.errors)")
        #expect(run.output.contains("sparse; read 1.0 MiB, skipped holes"), "\(run.output)")
    }
}

@Suite("forge check and vaults")
struct CheckVaultTests {
    private static let unverified = "unverified (1 secret; sealed under another key, or its header was changed)"

    /// Changes a byte of the vault's header and recomputes the checksum, which needs no key.
    private func changeHeader(_ offset: Int, of fixture: StoreFixture) throws {
        let url = fixture.scratch.url.appendingPathComponent("vault/v")
        var bytes = [UInt8](try Data(contentsOf: url))
        bytes[offset] ^= 1
        bytes.replaceSubrange(128..<160, with: Array(SHA256.hash(data: bytes[..<128])))
        try Data(bytes).write(to: url)
        try #require(chmod(url.path, 0o600) == 0)
    }

    private func check(_ fixture: StoreFixture, keysOf others: StoreFixture...) throws -> CommandRun {
        let keys = others.flatMap { ["--key-file", $0.scratch.path("vault/key")] }
        return try CommandRun(["check", fixture.scratch.url.path] + keys)
    }

    @Test("a vault whose header was changed is damaged")
    func changedHeader() async throws {
        let fixture = try await StoreFixture()
        try changeHeader(32, of: fixture)
        let run = try check(fixture, keysOf: fixture)
        #expect(run.status == 1)
        #expect(run.output.contains("damaged (verify in"), "\(run.output)")
        #expect(run.output.contains("altered or damaged"), "\(run.output)")
    }

    @Test("a vault that the key does not open is unverified, which is a failure")
    func otherKey() async throws {
        let (fixture, other) = (try await StoreFixture(), try await StoreFixture())
        let run = try check(fixture, keysOf: other)
        #expect(run.status == 1)
        #expect(run.output.contains(Self.unverified), "\(run.output)")
        #expect(run.output.contains("checked, 0 damaged, 1 not verified"), "\(run.output)")

        try changeHeader(16, of: fixture)
        let changed = try check(fixture, keysOf: fixture)
        #expect(changed.status == 1)
        #expect(changed.output.contains(Self.unverified), "\(changed.output)")
    }

    @Test("each vault is opened with the matching key")
    func severalKeys() async throws {
        let (fixture, other) = (try await StoreFixture(), try await StoreFixture())
        let run = try check(fixture, keysOf: other, fixture)
        #expect(run.status == 0, "\(run.output)")
        #expect(run.output.contains("intact (1 secret)"), "\(run.output)")
    }

    @Test("without a key, vaults are not failures")
    func withoutKey() async throws {
        let fixture = try await StoreFixture()
        try changeHeader(16, of: fixture)
        let run = try check(fixture)
        #expect(run.status == 0, "\(run.output)")
        #expect(run.output.contains("readable (1 secret; give --key-file to verify them)"), "\(run.output)")
    }
}
