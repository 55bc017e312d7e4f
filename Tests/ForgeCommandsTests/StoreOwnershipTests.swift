import Crypto
import ForgeStorage
import Foundation
import Testing

@testable import ForgeCommands

/// What belongs to a store, and what to the app, is decided by what stores have written, never by the name of a file.
@Suite("the files of stores and of the app")
struct StoreOwnershipTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    private func content(_ path: String) throws -> Data {
        try Data(contentsOf: scratch.url.appendingPathComponent(path))
    }

    /// Every file below the scratch directory with its content.
    private func files(below name: String = "") throws -> [String: Data] {
        var found: [String: Data] = [:]
        for path in try FileManager.default.subpathsOfDirectory(atPath: scratch.path(name)) {
            var isDirectory: ObjCBool = false
            let file = scratch.url.appendingPathComponent(name).appendingPathComponent(path)
            guard FileManager.default.fileExists(atPath: file.path, isDirectory: &isDirectory), !isDirectory.boolValue
            else { continue }
            found[path] = try Data(contentsOf: file)
        }
        return found
    }

    @discardableResult
    private func makeStore(_ name: String, keys: Int = 3) throws -> Data {
        let store = try FileKVStore(at: scratch.url.appendingPathComponent(name))
        for number in 0..<keys { try store.set(KVKey<String>("key.\(number)"), value: "value \(number)") }
        try store.synchronize()
        try store.close()
        return try content("\(name)/log")
    }

    private func makeVault(_ name: String) throws {
        let directory = scratch.url.appendingPathComponent(name)
        let key = try VaultKeyFile.loadOrCreate(at: directory.appendingPathComponent("key"))
        try VaultCrypt(at: directory.appendingPathComponent("vault"), key: key).set("x", for: CryptKey(key: "token"))
    }

    /// A log of a store with a damaged record.
    private func damagedLog() throws -> Data {
        var log = try makeStore("scrap-\(UUID().uuidString)", keys: 5)
        log[64 + 25] ^= 0x10
        return log
    }

    // MARK: Restore

    /// A backup with one file under each path; the manifest is complete and has the right checksums.
    private func makeBackup(_ paths: [String], _ text: String) throws {
        let digest = SHA256.hash(data: Data(text.utf8)).map { String(format: "%02x", $0) }.joined()
        var lines = ["{\"created\":\"2024-01-01T00:00:00Z\",\"format\":\"forge-backup\",\"version\":1}"]
        for path in paths {
            lines.append(
                "{\"bytes\":\(text.utf8.count),\"path\":\"\(path)\",\"permissions\":384,\"sha256\":\"\(digest)\"}")
        }
        let body = lines.map { $0 + "\n" }.joined()
        let sum = SHA256.hash(data: Data(body.utf8)).map { String(format: "%02x", $0) }.joined()
        let manifest = body + "{\"files\":\(paths.count),\"sha256\":\"\(sum)\"}\n"
        try scratch.plant("b/manifest", Data(manifest.utf8))
    }

    @Test(
        "a path of a manifest never leads out of the destination, whatever character its slashes are part of",
        arguments: [
            "../\u{301}target", "a/../\u{301}../\u{301}../\u{301}../target", "../\u{25CC}\u{301}a\u{600}/../target",
            "..", ".", "a/..", "/etc/target", "a//b", "", "a/./b", "../target",
            "../\u{25CC}\u{301}a\u{600}/../../\u{25CC}\u{301}b\u{600}/../target",
        ])
    func restoreInside(path: String) throws {
        try scratch.plant("w/dest-parent/keep", Data("keep".utf8))
        try scratch.plant("target", Data("mine".utf8))
        try scratch.plant("w/target", Data("mine".utf8))
        try makeBackup([path], "stolen")
        // The file that the path names from the content of the backup.
        for place in ["b/target", "b/content/target", "b/content/a/b", "b/content/\u{25CC}\u{301}a\u{600}/x"] {
            try scratch.plant(place, Data("stolen".utf8))
        }
        try scratch.plant("target", Data("mine".utf8))
        let source = scratch.path("b/content/../\u{301}target")
        if path.contains("\u{301}target") { try? Data("stolen".utf8).write(to: URL(fileURLWithPath: source)) }
        let before = try files()
        let run = try CommandRun(["restore", scratch.path("b"), scratch.path("w/dest-parent/r")])
        #expect(run.status == 1, "\(run.status) \(run.output) \(run.errors)")
        #expect(try files() == before, "\(run.output)")
    }

    @Test("a path of a manifest that leads over another file of the backup's content overwrites nothing outside")
    func restoreOverTarget() throws {
        // The slashes before U+0301 and behind U+0600 are parts of larger characters.
        let path = "../\u{301}a\u{600}/../../\u{301}b\u{600}/../target"
        try scratch.plant("target", Data("mine".utf8))
        try makeBackup([path], "stolen")
        for directory in ["b/\u{301}a\u{600}", "b/content/x", "\u{301}b\u{600}", "w/\u{301}a\u{600}", "w/r"] {
            try FileManager.default.createDirectory(
                atPath: scratch.path(directory), withIntermediateDirectories: true)
        }
        let before = try files()
        let run = try CommandRun(["restore", scratch.path("b"), scratch.path("w/r")])
        #expect(run.status == 1, "\(run.status) \(run.output) \(run.errors)")
        #expect(run.errors.contains("leads out of the backup"), "\(run.errors)")
        #expect(try files() == before, "\(run.output)")
    }

    @Test("a link in the content of a backup is not followed")
    func restoreLink() throws {
        try scratch.plant("secret/file", Data("stolen".utf8))
        try makeBackup(["d/file"], "stolen")
        try FileManager.default.createDirectory(atPath: scratch.path("b/content"), withIntermediateDirectories: true)
        try FileManager.default.createSymbolicLink(
            atPath: scratch.path("b/content/d"), withDestinationPath: scratch.path("secret"))
        let run = try CommandRun(["restore", scratch.path("b"), scratch.path("r")])
        #expect(run.status == 1, "\(run.output)")
        #expect(!FileManager.default.fileExists(atPath: scratch.path("r")))
    }

    // MARK: Outputs

    @Test(
        "an output is never written over a file of a store",
        arguments: [
            ["copy", "kv:@/S", "json:@/S/log"], ["copy", "kv:@/S", "json:@/S/#lock"],
            ["copy", "kv:@/S", "json:@/V/vault"], ["copy", "kv:@/S", "json:@/V/key"],
            ["copy", "kv:@/S", "json:@/S/quarantine-records-1"], ["copy", "json:@/lines", "json:@/T/log"],
            ["copy", "kv:@/S", "json:@/link"], ["copy", "kv:@/S", "json:@/I/a.cache"],
            ["copy", "kv:@/S", "json:@/F/#journal-0"], ["file", "get", "@/F", "a", "-o", "@/S/log"],
            ["file", "get", "@/F", "a", "-o", "@/V/vault"], ["file", "get", "@/F", "a", "-o", "@/V/key"],
            ["file", "get", "@/F", "a", "-o", "@/link"], ["file", "get", "@/F", "a", "-o", "@/I/a.cache"],
            ["file", "get", "@/F", "a", "-o", "@/F/#journal-0"], ["file", "get", "@/F", "a", "-o", "@/S/#reserve"],
            ["copy", "kv:@/S", "json:@/D/a"], ["copy", "kv:@/S", "json:@/C/a\(CacheDirectory.suffix)"],
            ["file", "get", "@/F", "a", "-o", "@/D/a"],
            ["file", "get", "@/F", "a", "-o", "@/C/a\(CacheDirectory.suffix)"],
        ])
    func outputs(words: [String]) async throws {
        try makeStore("S")
        try makeStore("T")
        try makeVault("V")
        try scratch.plant("S/quarantine-records-1", Data("set aside".utf8))
        try await DiskFileStore(root: scratch.url.appendingPathComponent("F")).save(Data("text".utf8), to: "a")
        try ImageCacheManager(cacheDirectory: scratch.url.appendingPathComponent("I")).cacheImage(
            id: "a", data: Data([1]))
        try DiskStorage(path: scratch.url.appendingPathComponent("D")).save(
            value: Data("text".utf8), for: "a")
        await (try BoundedCache<String>(directory: scratch.url.appendingPathComponent("C"), coding: .codable)).insert(
            "text", for: "a")
        try scratch.plant("lines", Data("{\"key\":\"a\",\"value\":1}\n".utf8))
        try FileManager.default.createSymbolicLink(
            atPath: scratch.path("link"), withDestinationPath: scratch.path("S/log"))
        let before = try files()
        let run = try CommandRun(words.map { $0.replacing("@", with: scratch.url.path) })
        #expect(run.status == 64 || run.status == 1, "\(run.status) \(run.output) \(run.errors)")
        #expect(run.errorLines.count == 1, "\(run.errors)")
        #expect(try files() == before)
        #expect(try CommandRun(["kv", "list", scratch.path("S")]).status == 0)
    }

    @Test(
        "an output is not written into a directory that cannot be looked at",
        .enabled(if: CommandRun.obeyingModes != nil))
    func unreadableDirectory() throws {
        try makeStore("S")
        try scratch.plant("lines", Data("{\"key\":\"a\",\"value\":1}\n".utf8))
        let before = try Data(contentsOf: scratch.url.appendingPathComponent("S/log"))
        // Files can be replaced there, by name.
        try #require(chmod(scratch.path("S"), 0o300) == 0)
        defer { chmod(scratch.path("S"), 0o700) }
        let run = try CommandRun(
            ["copy", "json:\(scratch.path("lines"))", "json:\(scratch.path("S/log"))"],
            prefix: #require(CommandRun.obeyingModes))
        #expect(run.status == 1 && run.errors.contains("EACCES"), "\(run.status) \(run.errors)")
        #expect(try Data(contentsOf: scratch.url.appendingPathComponent("S/log")) == before)
    }

    @Test("a store copied onto itself through a link is the same place")
    func sameStore() throws {
        try makeStore("S")
        try FileManager.default.createSymbolicLink(atPath: scratch.path("L"), withDestinationPath: scratch.path("S"))
        for (target, status) in [("L", 64), ("S", 64), ("none", 0)] as [(String, Int32)] {
            let run = try CommandRun(["copy", "kv:\(scratch.path("S"))", "kv:\(scratch.path(target))"])
            #expect(run.status == status && run.errors.contains("the same") == (status == 64), "\(run.errors)")
        }
        let missing = "kv:\(scratch.path("missing"))"
        #expect(try CommandRun(["copy", missing, missing]).status == 4)
    }

    @Test("a verb of one kind of store leaves the files of another kind as they are")
    func otherKind() async throws {
        let log = try makeStore("S")
        let set = try CommandRun(["file", "set", scratch.path("S"), "log"], input: "text")
        #expect(set.status != 0 && set.errorLines.count == 1, "\(set.errors)")
        try scratch.plant("T/log", Data("text".utf8))
        let copy = try CommandRun(["copy", "tree:\(scratch.path("T"))", "file:\(scratch.path("S"))"])
        #expect(copy.status != 0, "\(copy.output)")
        #expect(try CommandRun(["file", "rm", scratch.path("S"), "log"]).status != 0)
        #expect(try content("S/log") == log)
        let files = DiskFileStore(root: scratch.url.appendingPathComponent("F"))
        try await files.save(Data("attachment".utf8), to: "log")
        for words in [
            ["kv", "set", scratch.path("F"), "key", "1"],
            ["copy", "kv:\(scratch.path("S"))", "kv:\(scratch.path("F"))"],
        ] {
            let run = try CommandRun(words)
            #expect(run.status != 0, "\(words)")
        }
        #expect(try await files.list(in: "", recursive: true).map(\.key) == ["log"])
        #expect(try content("F/log") == Data("attachment".utf8))
        // In a directory of no store, opening one would set the file aside.
        for words in [["kv", "set", scratch.path("T"), "key", "1"], ["kv", "rm", scratch.path("T"), "key"]] {
            let run = try CommandRun(words)
            let reason = "is not a key-value store: its file log belongs to another program"
            #expect(run.status == 1 && run.errors == "Error: \(scratch.path("T")) \(reason)\n", "\(run.errors)")
        }
        #expect(try self.files(below: "T") == ["log": Data("text".utf8)])
    }

    // MARK: Check and repair

    @Test("check reads, and repair never changes, what an app has stored in a file store, whatever its name or content")
    func attachments() async throws {
        let log = try damagedLog()
        try makeVault("V")
        var vault = try content("V/vault")
        vault[vault.count / 2] ^= 1
        var key = try content("V/key")
        key[key.count / 2] ^= 1
        let files = DiskFileStore(root: scratch.url.appendingPathComponent("all/fs"))
        let contents = [
            "log": log, "d/log": log, "build.cache": Data("not an image".utf8), "vault": vault, "d/key": key,
            "quarantine-records-1": Data("x".utf8), "#shared": Data("x".utf8), "#log-new": log,
            "d/#reserve": Data("y".utf8), "image.cache": Data("FORGEIMG damaged".utf8),
        ]
        for (name, content) in contents { try await files.save(content, to: name) }
        let before = try self.files(below: "all")
        let words = [scratch.path("all"), "--key-file", scratch.path("V/key")]
        let check = try CommandRun(["check"] + words)
        #expect(check.status == 0, "\(check.output)")
        let repair = try CommandRun(["repair"] + words)
        #expect(repair.status == 0, "\(repair.output)")
        #expect(repair.output == "0 damaged, 0 repaired, 0 failed\n", "\(repair.output)")
        // Also of a directory of the store alone.
        #expect(try CommandRun(["repair", scratch.path("all/fs/d")]).status == 0)
        #expect(try self.files(below: "all") == before)
        let listed = try await files.list(in: "", recursive: true).filter { !$0.isDirectory }.map(\.key)
        #expect(Set(listed) == Set(contents.keys))
        for (name, content) in contents { #expect(try await files.load(name) == content, "\(name)") }
    }

    @Test("a damaged log in a directory that no store has marked is reported, and repaired only if it is named itself")
    func unmarkedLog() throws {
        try scratch.plant("all/copy/log", damagedLog())
        try scratch.plant("all/a", Data("x".utf8))
        let before = try files(below: "all")
        #expect(try CommandRun(["check", scratch.path("all")]).status == 1)
        let run = try CommandRun(["repair", scratch.path("all")])
        #expect(run.status == 2, "\(run.output)")
        #expect(run.output.contains("left as it is"), "\(run.output)")
        #expect(try files(below: "all") == before)
        let named = try CommandRun(["repair", scratch.path("all/copy")])
        #expect(named.status == 0, "\(named.output)")
        #expect(try CommandRun(["check", scratch.path("all")]).status == 0)
    }

    // MARK: Copies of trees

    @Test("copy --delete keeps a store in the destination whole, and reports it")
    func deleteKeepsStores() async throws {
        try scratch.plant("A/file", Data("x".utf8))
        try scratch.plant("A/app/note", Data("y".utf8))
        try scratch.plant("B/old", Data("z".utf8))
        try makeStore("B/app")
        try scratch.plant("B/app/extra", Data("kept".utf8))
        try makeVault("B/vault")
        let store = DiskFileStore(root: scratch.url.appendingPathComponent("B/fs"))
        try await store.save(Data("1".utf8), to: "a/b")
        let before = try files(below: "B")
        let words = ["copy", "tree:\(scratch.path("A"))", "tree:\(scratch.path("B"))", "--delete", "--json"]
        let run = try CommandRun(words)
        #expect(run.status == 2, "\(run.status) \(run.errors)")
        #expect(try run.summary()["deleted"] as? Int == 1)
        let skipped = try run.rows().filter { $0["action"] as? String == "skip" }.compactMap { $0["key"] as? String }
        #expect(skipped.sorted() == ["app", "fs", "vault"])
        var expected = before
        expected["old"] = nil
        expected["file"] = Data("x".utf8)
        expected["app/note"] = Data("y".utf8)
        #expect(try files(below: "B") == expected)
        #expect(try CommandRun(["kv", "list", scratch.path("B/app")]).status == 0)
    }

    @Test("a copy of a tree never replaces a file of a store by one that is none of that store")
    func replaceKeepsStores() throws {
        try scratch.plant("A/app/log", Data("notes".utf8))
        try makeStore("B/app")
        let before = try content("B/app/log")
        let run = try CommandRun(["copy", "tree:\(scratch.path("A"))", "tree:\(scratch.path("B"))"])
        #expect(run.status != 0 && run.output.contains("fail"), "\(run.output)")
        #expect(try content("B/app/log") == before)
    }

    @Test(
        "a tree with stores is mirrored as often as it has changed, and what a store of the source has lost is deleted")
    func mirror() throws {
        try makeStore("A/app")
        try makeVault("A/vault")
        let words = ["copy", "tree:\(scratch.path("A"))", "tree:\(scratch.path("B"))", "--delete"]
        #expect(try CommandRun(words).status == 0)
        try makeStore("A/app", keys: 7)
        try scratch.plant("B/app/extra", Data("old".utf8))
        for name in ["vault", "key"] { try scratch.plant("B/vault/old-\(name)", content("B/vault/\(name)")) }
        let run = try CommandRun(words)
        #expect(run.status == 0, "\(run.output) \(run.errors)")
        #expect(try files(below: "B") == files(below: "A"))
    }

    @Test(
        "a copy of a tree replaces no file of a key-value store that another process has open",
        arguments: [false, true])
    func replaceOpenStore(isShared: Bool) throws {
        try makeStore("A/app")
        try scratch.plant("A/file", Data("x".utf8))
        try makeStore("B/app", keys: 5)
        var options = FileKVStore.Options()
        if isShared { options.sharing = .shared }
        let store = try FileKVStore(at: scratch.url.appendingPathComponent("B/app"), options: options)
        let words = ["copy", "tree:\(scratch.path("A"))", "tree:\(scratch.path("B"))"]
        let before = try files(below: "B")
        let run = try CommandRun(words)
        #expect(run.status == 2 && run.output.contains("in use"), "\(run.status) \(run.output)")
        try store.set(KVKey<Int>("later"), value: 1)
        try store.synchronize()
        try store.close()
        #expect(try files(below: "B").keys.sorted() == before.keys.sorted() + ["file"])
        let reopened = try FileKVStore(at: scratch.url.appendingPathComponent("B/app"))
        #expect(try reopened.keys().count == 6)
        try reopened.close()
        let again = try CommandRun(words)
        #expect(again.status == 0, "\(again.output)")
        #expect(try content("B/app/log") == content("A/app/log"))
        try FileKVStore(at: scratch.url.appendingPathComponent("B/app")).close()
    }

    @Test("a copy of a tree keeps the lock of a store in the destination, and creates one that is missing")
    func locksStay() throws {
        try makeStore("A/app")
        let words = ["copy", "tree:\(scratch.path("A"))", "tree:\(scratch.path("B"))", "--verify"]
        let first = try CommandRun(words)
        #expect(first.status == 0, "\(first.output) \(first.errors)")
        // Each file counts once. The log and the marker of the store are verified.
        let count = try files(below: "A").count
        #expect(first.output.hasPrefix("\(count) copied ("), "\(first.output)")
        #expect(first.output.hasSuffix("), 0 equal, 2 verified\n"), "\(first.output)")
        let lock = scratch.path("B/app/#lock")
        let inode = try FileManager.default.attributesOfItem(atPath: lock)[.systemFileNumber] as? Int
        try makeStore("A/app", keys: 4)
        try scratch.plant("A/app/#lock", Data("1\n          ".utf8))
        let run = try CommandRun(words)
        #expect(run.status == 0, "\(run.output) \(run.errors)")
        #expect(try FileManager.default.attributesOfItem(atPath: lock)[.systemFileNumber] as? Int == inode)
        #expect(try content("B/app/log") == content("A/app/log"))
        try FileManager.default.removeItem(atPath: lock)
        try makeStore("A/app", keys: 5)
        #expect(try CommandRun(words).status == 0)
        #expect(try content("B/app/log") == content("A/app/log"))
        try FileKVStore(at: scratch.url.appendingPathComponent("B/app")).close()
    }

    @Test("a copy of a tree goes on after a store whose lock cannot be taken")
    func unusableLock() throws {
        try makeStore("A/app")
        let words = ["copy", "tree:\(scratch.path("A"))", "tree:\(scratch.path("B"))"]
        #expect(try CommandRun(words).status == 0)
        let before = try content("B/app/log")
        try FileManager.default.linkItem(atPath: scratch.path("B/app/#lock"), toPath: scratch.path("second"))
        try makeStore("A/app", keys: 5)
        for name in ["a", "z"] { try scratch.plant("A/\(name)", Data("new".utf8)) }
        let run = try CommandRun(words)
        #expect(run.status == 2, "\(run.errors)")
        #expect(run.output.contains("/app/log  (") && run.output.contains("EMLINK"), "\(run.output)")
        #expect(try content("B/app/log") == before)
        for name in ["a", "z"] { #expect(try content("B/\(name)") == Data("new".utf8)) }
    }

    @Test(
        "a copy of a tree writes no file into a file store that the source does not have",
        arguments: ["B", "B/fs", "B/fs/d"])
    func replaceStoredFiles(destination: String) async throws {
        let below = String(destination.dropFirst(2))
        for file in ["fs/a", "fs/d/b", "fs/new"] { try scratch.plant("A/\(file)", Data("other".utf8)) }
        let store = DiskFileStore(root: scratch.url.appendingPathComponent("B/fs"))
        for key in ["a", "d/b"] { try await store.save(Data("text".utf8), to: key) }
        let before = try files(below: "B")
        let source = below.isEmpty ? "A" : "A/\(below)"
        let words = ["tree:\(scratch.path(source))", "tree:\(scratch.path(destination))"]
        for option in [[], ["--dry-run"]] {
            let run = try CommandRun(["copy"] + words + option)
            #expect(run.status != 0 && run.output.contains("file store"), "\(run.status) \(run.output)")
            #expect(try files(below: "B") == before)
        }
    }

    @Test("copy --delete lists every store that it keeps, of whatever kind")
    func deleteListsKeptStores() throws {
        try scratch.plant("A/file", Data("x".utf8))
        try makeStore("B/kv")
        try makeStore("B/deep/kv")
        let words = ["copy", "tree:\(scratch.path("A"))", "tree:\(scratch.path("B"))", "--delete", "--json"]
        let run = try CommandRun(words)
        #expect(run.status == 2, "\(run.status) \(run.output)")
        let skipped = try run.rows().filter { $0["action"] as? String == "skip" }.compactMap { $0["key"] as? String }
        #expect(skipped.sorted() == ["deep/kv", "kv"])
    }

    // MARK: Backups

    @Test("a backup contains every file that an app has stored, whatever its name")
    func backupOfEveryName() async throws {
        let names = [
            "#shared", "#reserve", "#log-new", "#quarantine-new", "d/#shared", "quarantine-records-1", "log", "a.cache",
        ]
        let store = DiskFileStore(root: scratch.url.appendingPathComponent("data/fs"))
        for name in names { try await store.save(Data("text \(name)".utf8), to: name) }
        let others = ["#tmp-mine/file", "d/#tmp-note", "#trash-old/x", "#shared", "#lock-screen", "#move-on"]
        for name in others { try scratch.plant("data/other/\(name)", Data("other \(name)".utf8)) }
        let run = try CommandRun(["backup", scratch.path("data"), scratch.path("b")])
        #expect(run.status == 0, "\(run.output) \(run.errors)")
        #expect(try CommandRun(["restore", scratch.path("b"), scratch.path("r")]).status == 0)
        let restored = try files(below: "r")
        for name in names { #expect(restored["fs/\(name)"] == Data("text \(name)".utf8), "\(name)") }
        for name in others { #expect(restored["other/\(name)"] == Data("other \(name)".utf8), "\(name)") }
    }

    @Test("a backup into its own source is refused, also through a link", arguments: ["sub/b", "link/b", "link/new/b"])
    func backupIntoSource(destination: String) throws {
        try scratch.plant("data/sub/file", Data("x".utf8))
        try FileManager.default.createSymbolicLink(
            atPath: scratch.path("link"), withDestinationPath: scratch.path("data/sub"))
        let path = destination.hasPrefix("link") ? scratch.path(destination) : scratch.path("data/\(destination)")
        let run = try CommandRun(["backup", scratch.path("data"), path])
        #expect(run.status == 64, "\(run.status) \(run.output)")
        #expect(
            try FileManager.default.subpathsOfDirectory(atPath: scratch.path("data")).sorted() == ["sub", "sub/file"])
    }

    @Test("a restored store is a store to du")
    func restoredUsage() throws {
        try makeStore("data/kv")
        #expect(try CommandRun(["backup", scratch.path("data"), scratch.path("b")]).status == 0)
        #expect(try CommandRun(["restore", scratch.path("b"), scratch.path("r")]).status == 0)
        let usage = try CommandRun(["du", scratch.path("r")])
        #expect(usage.output.contains("key-value store"), "\(usage.output)")
    }
}
