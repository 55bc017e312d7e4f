import Crypto
import ForgeStorage
import Foundation
import SystemPackage
import Testing

@testable import ForgeCommands

/// Stores and backups in the destination of a copy, or where an output would be written.
@Suite("stores and backups that are kept")
struct KeptStoreTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    /// Every file below a directory with its content.
    func files(_ name: String) throws -> [String: Data] {
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

    func makeStore(_ name: String, keys: Int = 3) throws {
        let store = try FileKVStore(at: scratch.url.appendingPathComponent(name))
        for number in 0..<keys { try store.set(KVKey<String>("key.\(number)"), value: "value \(number)") }
        try store.synchronize()
        try store.close()
    }

    func makeVault(_ name: String) throws {
        let directory = scratch.url.appendingPathComponent(name)
        let key = try VaultKeyFile.loadOrCreate(at: directory.appendingPathComponent("key"))
        try VaultCrypt(at: directory.appendingPathComponent("vault"), key: key).set("x", for: CryptKey(key: "token"))
    }

    func makeFiles(_ name: String, _ keys: [String]) async throws {
        let store = DiskFileStore(root: scratch.url.appendingPathComponent(name))
        for key in keys { try await store.save(Data("text of \(key)".utf8), to: key) }
    }

    /// Removes the files whose names begin with `#`, as a copy by hand may leave them out.
    func unmark(_ name: String, except kept: [String] = []) throws {
        for file in try FileManager.default.contentsOfDirectory(atPath: scratch.path(name))
        where file.hasPrefix("#") && !kept.contains(file) {
            try FileManager.default.removeItem(atPath: scratch.path("\(name)/\(file)"))
        }
    }

    func copy(_ source: String, _ target: String, _ options: [String] = []) throws -> CommandRun {
        let words = [source, target].map { $0.replacing(":", with: ":\(scratch.url.path)/") }
        return try CommandRun(["copy"] + words + ["--json"] + options)
    }

    func keys(_ run: CommandRun, _ action: String) throws -> [String] {
        try run.rows().filter { $0["action"] as? String == action }.compactMap { $0["key"] as? String }.sorted()
    }

    // MARK: Stores that have not marked their directories

    /// A log with what a store has beside it, and a vault with its key, in directories without markers.
    private func makeUnmarked(_ name: String) throws {
        try makeStore("\(name)/kv")
        try unmark("\(name)/kv", except: ["#reserve"])
        try scratch.plant("\(name)/kv/quarantine-records-1", "set aside")
        try makeVault("\(name)/v")
        try unmark("\(name)/v")
    }

    @Test("a copy of a tree replaces a log, vault or key without a marker only by a file of the same kind")
    func unmarkedReplaced() async throws {
        try makeUnmarked("dst")
        let before = try files("dst")
        for name in ["kv/log", "kv/#reserve", "kv/quarantine-records-1", "v/vault", "v/key", "kv/note"] {
            try scratch.plant("src/\(name)", "plain")
        }
        try await makeFiles("fs", ["kv/log", "v/vault", "v/key"])
        for options in [["--dry-run"], [], ["--delete"]] {
            let run = try copy("tree:src", "tree:dst", options)
            #expect(run.status == 2, "\(run.output) \(run.errors)")
            let expected = ["kv/#reserve", "kv/log", "kv/quarantine-records-1", "v/key", "v/vault"]
            #expect(try keys(run, "fail") == expected, "\(run.output)")
        }
        #expect(try copy("file:fs", "tree:dst").status == 1)
        #expect(try files("dst") == before.merging(["kv/note": Data("plain".utf8)]) { $1 })
        // By a store of the same kind they are, marked or not.
        try makeStore("same/kv", keys: 5)
        try makeVault("same/v")
        try unmark("same/v")
        let run = try copy("tree:same", "tree:dst")
        #expect(run.status == 0, "\(run.output) \(run.errors)")
        for name in ["kv/log", "v/vault", "v/key"] {
            #expect(try files("dst")[name] == files("same")[name], "\(name)")
        }
        #expect(try CommandRun(["kv", "list", scratch.path("dst/kv")]).status == 0)
    }

    @Test("copy --delete keeps and lists what a store without a marker has, again and again")
    func unmarkedDeleted() throws {
        try makeUnmarked("dst")
        let before = try files("dst")
        try scratch.plant("dst/old", "old")
        try scratch.plant("dst/quarantine-note", "of an app")
        try scratch.plant("src/n", "new")
        for options in [["--dry-run"], [], []] {
            let run = try copy("tree:src", "tree:dst", ["--delete"] + options)
            #expect(run.status == 2, "\(run.output) \(run.errors)")
            let kept = ["kv/#reserve", "kv/log", "kv/quarantine-records-1", "v/key", "v/vault"]
            #expect(try keys(run, "skip") == kept, "\(run.output)")
        }
        #expect(try files("dst") == before.merging(["n": Data("new".utf8)]) { $1 })
    }

    @Test("a file store is not created above files of stores without a marker, which it could remove")
    func unmarkedBelowFileStore() async throws {
        try makeUnmarked("dst")
        let before = try files("dst")
        try scratch.plant("src/n", "new")
        try scratch.plant("src/kv/log", "plain")
        try await makeFiles("files", ["n", "v/key"])
        for source in ["tree:src", "file:files"] {
            for options in [[], ["--delete"], ["--dry-run"]] {
                let run = try copy(source, "file:dst", options)
                #expect(run.status == 2, "\(run.output) \(run.errors)")
                for name in ["kv/log", "v/vault", "v/key"] { #expect(run.errors.contains(name), "\(run.errors)") }
                #expect(try files("dst") == before)
            }
        }
        let dst = scratch.path("dst")
        for words in [["rm", "-r", dst, "kv"], ["rm", "-r", dst, "v"], ["set", dst, "new"], ["rm", dst, "v/key"]] {
            let run = try CommandRun(["file"] + words, input: "text")
            #expect(run.status == 64 && run.errorLines.count >= 1, "\(words) \(run.errors)")
            #expect(try files("dst") == before)
        }
        // Files in a marked file store belong to the app, whatever their content is.
        try await makeFiles("dst2", ["n"])
        try FileManager.default.copyItem(atPath: scratch.path("dst/kv"), toPath: scratch.path("dst2/kv"))
        #expect(try CommandRun(["file", "rm", "-r", scratch.path("dst2"), "kv"]).status == 0)
    }

    @Test("an output is not written beside a log without a marker")
    func outputBesideLog() async throws {
        try makeUnmarked("dst")
        try makeStore("kv")
        try await makeFiles("files", ["a"])
        #expect(try CommandRun(["backup", scratch.path("files"), scratch.path("b")]).status == 0)
        let before = try files("dst")
        let place = scratch.path("dst/kv/x")
        for words in [
            ["file", "get", scratch.path("files"), "a", "-o", place],
            ["copy", "kv:\(scratch.path("kv"))", "json:\(place)"], ["backup", scratch.path("files"), place],
            ["restore", scratch.path("b"), place],
        ] {
            let run = try CommandRun(words)
            #expect(run.status == 64 && run.errors.contains("key-value store"), "\(words) \(run.errors)")
        }
        #expect(try files("dst") == before)
    }

    // MARK: Stores of other kinds

    @Test("a log without a marker does not replace the log of a marked store")
    func unmarkedSource() throws {
        try makeStore("src/kv", keys: 5)
        try unmark("src/kv")
        try makeStore("dst/kv")
        let before = try files("dst")
        let run = try copy("tree:src", "tree:dst")
        #expect(run.status == 1, "\(run.output)")
        #expect(
            try run.rows().map { $0["reason"] as? String } == ["the destination has a store there: key-value store"])
        #expect(try files("dst") == before)
    }

    @Test("a store is copied where another one has files without a marker, if it has files of these kinds, too")
    func besideUnmarked() async throws {
        // In a directory below, which a key-value store does not own.
        try makeStore("src/below")
        try makeVault("dst/below/vault")
        try unmark("dst/below/vault")
        // An app has stored a log in a file store.
        try await makeFiles("src/files", ["a"])
        try await DiskFileStore(root: scratch.url.appendingPathComponent("src/files")).save(
            try #require(files("src")["below/log"]), to: "log")
        try makeStore("dst/files", keys: 5)
        try unmark("dst/files")
        // Of its own kind.
        try makeStore("src/own")
        try makeStore("dst/own", keys: 5)
        try unmark("dst/own")
        try FileManager.default.removeItem(atPath: scratch.path("src/own/log"))
        let before = try files("dst")
        let run = try copy("tree:src", "tree:dst")
        #expect(run.status == 0, "\(run.output) \(run.errors)")
        var expected = try before.merging(files("src")) { $1 }
        // The copy has made one to lock the store.
        expected["own/#lock"] = try files("dst")["own/#lock"]
        #expect(try files("dst") == expected)
    }

    @Test("a file store is not copied above a backup, unless it has that backup")
    func aboveBackup() async throws {
        try makeStore("data/kv")
        #expect(try CommandRun(["backup", scratch.path("data"), scratch.path("b")]).status == 0)
        try await makeFiles("src/files", ["a"])
        try FileManager.default.createDirectory(atPath: scratch.path("dst/files"), withIntermediateDirectories: true)
        try FileManager.default.copyItem(atPath: scratch.path("b"), toPath: scratch.path("dst/files/b"))
        let before = try files("dst")
        let refused = try copy("tree:src", "tree:dst")
        #expect(refused.status == 1, "\(refused.output)")
        #expect(
            Set(try refused.rows().map { $0["reason"] as? String })
                == ["the destination has a backup there"])
        #expect(try files("dst") == before)
        try FileManager.default.copyItem(atPath: scratch.path("b"), toPath: scratch.path("src/files/b"))
        let run = try copy("tree:src", "tree:dst")
        #expect(run.status == 0, "\(run.output) \(run.errors)")
        #expect(try files("dst") == files("src"))
    }

    @Test("a store is not copied into the directory of one of another kind, marked or not", arguments: [true, false])
    func otherKinds(isMarked: Bool) async throws {
        try await makeFiles("src/x", ["b.txt", "n/a.txt"])
        try makeVault("src/y")
        try makeStore("src/z")
        try await makeFiles("src/deep", ["a.txt"])
        try makeStore("dst/x")
        try makeStore("dst/y")
        try makeVault("dst/z")
        try makeStore("dst/deep/kv")
        for name in ["x", "y", "z", "deep/kv"] where !isMarked { try unmark("dst/\(name)") }
        var before = try files("dst")
        if isMarked {
            // A file store keeps its distance from a root below it.
            for name in try files("src").keys where name.hasPrefix("deep/") && !name.hasPrefix("deep/#journal") {
                before[name] = try files("src")[name]
            }
        }
        for options in [["--dry-run"], [], ["--delete"]] {
            let run = try copy("tree:src", "tree:dst", options)
            #expect(run.status == 2, "\(run.output) \(run.errors)")
            let failed = try keys(run, "fail")
            for name in ["x/#store-files", "x/b.txt", "y/#store-vaults", "y/vault", "z/#store-key-value", "z/log"] {
                #expect(failed.contains(name), "\(name): \(failed)")
            }
            #expect(failed.contains("deep/#store-files") == !isMarked)
        }
        let after = try files("dst")
        for (name, content) in before { #expect(after[name] == content, "\(name)") }
        let added = after.keys.filter { before[$0] == nil && !$0.hasPrefix("deep/") }
        #expect(added.allSatisfy { !isMarked && $0.hasPrefix("x/n/") }, "\(added)")
    }

    @Test("copy --delete lists the log that it keeps of a store whose source has none")
    func logIsListed() throws {
        try makeStore("src/kv")
        try makeStore("dst/kv")
        try FileManager.default.removeItem(atPath: scratch.path("src/kv/log"))
        let log = try files("dst")["kv/log"]
        let run = try copy("tree:src", "tree:dst", ["--delete"])
        #expect(run.status == 2, "\(run.output)")
        #expect(try keys(run, "skip") == ["kv/log"])
        #expect(try files("dst")["kv/log"] == log)
    }

    @Test("copy --delete lists a store below a file store that the source does not have")
    func storeBelowFileStore() async throws {
        try await makeFiles("src", ["a"])
        try await makeFiles("dst", ["a", "old"])
        try makeStore("dst/d/kv")
        let before = try files("dst/d")
        for options in [["--dry-run"], [], []] {
            let run = try copy("file:src", "file:dst", ["--delete"] + options)
            #expect(run.status == 2, "\(run.output)")
            #expect(try keys(run, "skip") == ["d/kv"], "\(run.output)")
        }
        #expect(try files("dst/d") == before)
    }
}

extension KeptStoreTests {
    // MARK: Manifests

    /// The lines of a manifest, and the reason why it is refused.
    struct OddManifest: CustomTestStringConvertible {
        var lines: [String] = []
        var format = "\"format\":\"forge-backup\",\"version\":1"
        /// The number of files in the last line.
        var count = 1
        var end = ""
        let reason: String

        var testDescription: String { "\(lines.first ?? format) \(count) \(end)" }

        static func directory(_ path: String) -> OddManifest {
            OddManifest(
                lines: ["{\"directory\":\"\(path)\",\"permissions\":448}"], reason: "leads out of the backup: \(path)")
        }

        static let all = [
            directory(".."), directory("../x"), directory("/x"), directory("a/../../x"), directory("a//x"),
            OddManifest(lines: ["[]"], reason: "altered, damaged or unfinished"),
            OddManifest(format: "\"format\":\"forge-backup\",\"version\":2", reason: "by a later version of forge"),
            OddManifest(format: "\"format\":\"other\",\"version\":1", reason: "not the manifest of a backup"),
            OddManifest(count: 2, reason: "altered or damaged"), OddManifest(end: "[]\n", reason: "altered or damaged"),
        ]
    }

    /// Makes a backup of the file `d/f` with a manifest that has the right checksum.
    private func makeBackup(_ manifest: OddManifest) throws {
        func checksum(_ text: String) -> String {
            SHA256.hash(data: Data(text.utf8)).map { String(format: "%02x", $0) }.joined()
        }
        let file = "{\"bytes\":4,\"path\":\"d/f\",\"permissions\":384,\"sha256\":\"\(checksum("text"))\"}"
        let lines = ["{\"created\":\"2024-01-01T00:00:00Z\",\(manifest.format)}"] + manifest.lines + [file]
        let body = lines.map { $0 + "\n" }.joined()
        let last = "{\"files\":\(manifest.count),\"sha256\":\"\(checksum(body))\"}\n"
        try scratch.plant("b/manifest", body + last + manifest.end)
        try scratch.plant("b/content/d/f", "text")
    }

    @Test("a manifest without lines of directories is restored with them")
    func directoriesOfFiles() throws {
        try makeBackup(OddManifest(reason: ""))
        let run = try CommandRun(["restore", scratch.path("b"), scratch.path("r")])
        #expect(run.status == 0, "\(run.errors)")
        #expect(try files("r") == ["d/f": Data("text".utf8)])
    }

    @Test("an altered manifest with the right checksum is refused, with the reason", arguments: OddManifest.all)
    func oddManifest(manifest: OddManifest) throws {
        try makeBackup(manifest)
        for options in [["--dry-run"], []] {
            let run = try CommandRun(["restore", scratch.path("b"), scratch.path("r")] + options)
            #expect(run.status == 1 && run.output.isEmpty, "\(run.status) \(run.output)")
            #expect(run.errors.contains(manifest.reason) && run.errorLines.count == 1, "\(run.errors)")
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path) == ["b"])
    }

    @Test(
        "a directory in a backup that cannot be read, and was added to it, is listed",
        .enabled(if: CommandRun.obeyingModes != nil))
    func unreadableAddition() throws {
        try makeBackup(OddManifest(reason: ""))
        try scratch.plant("b/content/closed/f")
        try #require(chmod(scratch.path("b/content/closed"), 0) == 0)
        defer { chmod(scratch.path("b/content/closed"), 0o700) }
        for (options, action) in [(["--dry-run"], "verified"), ([], "restored")] {
            let run = try CommandRun(
                ["restore", scratch.path("b"), scratch.path("r")] + options,
                prefix: #require(CommandRun.obeyingModes))
            let line = "skip  closed  (open closed: Permission denied (EACCES))\n"
            #expect(run.status == 2 && run.output == line + "1 file \(action) (4 B), 1 skipped\n", "\(run.output)")
        }
        #expect(try files("r") == ["d/f": Data("text".utf8)])
    }

    // MARK: Names

    @Test("names that are not valid UTF-8 are listed, and left out of a backup")
    func invalidNames() throws {
        try scratch.plant("s/y", "text")
        let fileSystem = SystemFileSystem()
        let root = try POSIXPath(scratch.url).appending("s")
        defer { try? fileSystem.removeTree(root) }
        let directory = root.appending(POSIXPath([0x64, 0xFF]))
        try fileSystem.createDirectory(directory)
        for file in [directory.appending("x"), root.appending(POSIXPath([0x66, 0xFF]))] {
            try fileSystem.close(fileSystem.open(file, .writeOnly, options: [.create]))
        }
        let run = try CommandRun(["backup", scratch.path("s"), scratch.path("b")])
        #expect(run.status == 2, "\(run.errors)")
        let failed = ["d\\xff", "d\\xff/x", "f\\xff"].map { "fail  \($0)  (the name is not valid UTF-8)\n" }.joined()
        #expect(run.output == failed + "1 file saved (4 B), 3 failed\n")
        #expect(try CommandRun(["restore", scratch.path("b"), scratch.path("r")]).status == 0)
        #expect(try FileManager.default.subpathsOfDirectory(atPath: scratch.path("r")) == ["y"])
    }

    @Test("a path is below a directory if its components begin with those of the directory")
    func below() {
        for (path, directory) in [("a", ""), ("a/b", ""), ("ab/c", "ab"), ("ab/c/d", "ab"), ("ab/c/d", "ab/c")] {
            #expect(POSIXPath(path).isBelow(POSIXPath(directory)), "\(path) \(directory)")
        }
        for (path, directory) in [
            ("", ""), ("", "a"), ("ab", "ab"), ("abc", "ab"), ("abc/d", "ab"), ("xy/c", "ab"), ("a", "ab"),
            ("a/b", "ab/c"),
        ] {
            #expect(!POSIXPath(path).isBelow(POSIXPath(directory)), "\(path) \(directory)")
        }
    }

    @Test("what is completed beside the destination is private, also in a directory that was there")
    func privateUnfinished() throws {
        try FileManager.default.createDirectory(atPath: scratch.path(".b.partial"), withIntermediateDirectories: true)
        try #require(chmod(scratch.path(".b.partial"), 0o777) == 0)
        let staged = try StagedDirectory(for: POSIXPath(scratch.url.appendingPathComponent("b")), keeping: [])
        for path in [".b.partial", ".b.partial/new"] {
            let mode = try FileManager.default.attributesOfItem(atPath: scratch.path(path))[.posixPermissions] as? Int
            #expect(mode == 0o700, "\(path)")
        }
        withExtendedLifetime(staged) {}
    }

    @Test("what has appeared at the destination meanwhile is replaced only if it is an empty directory")
    func destinationMeanwhile() throws {
        let filled = try StagedDirectory(for: POSIXPath(scratch.url.appendingPathComponent("b")), keeping: [])
        try Data("text".utf8).write(to: URL(filled.path).appendingPathComponent("file"))
        try scratch.plant("b/mine", "mine")
        let failure = #expect(throws: FileSystemError.self) { try filled.place() }
        #expect(failure?.errno == .directoryNotEmpty || failure?.errno == .fileExists)
        #expect(try scratch.contents("b") == ["mine": Data("mine".utf8)])
        try FileManager.default.removeItem(atPath: scratch.path("b/mine"))
        try filled.place()
        #expect(try scratch.contents("b") == ["file": Data("text".utf8)])
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path) == ["b"])
    }
}
