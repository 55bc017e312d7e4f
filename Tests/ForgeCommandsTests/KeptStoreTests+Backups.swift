import ChildProcesses
import Crypto
import ForgeStorage
import Foundation
import SystemPackage
import Testing

@testable import ForgeCommands

extension KeptStoreTests {
    // MARK: Backups

    /// A directory of stores, and backups of it before and after a change.
    private func makeBackups() async throws {
        try makeStore("data/kv", keys: 5)
        try await makeFiles("data/files", ["b.txt"])
        #expect(try CommandRun(["backup", scratch.path("data"), scratch.path("b1")]).status == 0)
        try makeStore("data/kv", keys: 9)
        try await makeFiles("data/files", ["c.txt"])
        #expect(try CommandRun(["backup", scratch.path("data"), scratch.path("b2")]).status == 0)
    }

    private func verify(_ backup: String) throws -> CommandRun {
        try CommandRun(["restore", "--dry-run", scratch.path(backup), scratch.path("none")])
    }

    @Test("a directory whose manifest cannot be read counts as a backup, and one without a manifest does not")
    func unreadableManifest() throws {
        let device = InMemoryFileSystem()
        for path in ["/backup/content", "/other/content", "/named/content/manifest"] as [POSIXPath] {
            try device.makeDirectories(path)
        }
        try device.makeDirectories("/file")
        for path in ["/backup/manifest", "/file/content"] {
            try device.write(Data("{}".utf8), to: URL(filePath: path))
        }
        try device.setPermissions([], of: .path("/backup/manifest"))
        let user = device.process(user: UserID(1000), group: GroupID(1000))
        for path in ["/backup", "/other", "/named"] as [POSIXPath] {
            try device.setPermissions(FilePermissions(rawValue: 0o755), of: .path(path))
            try device.setPermissions(FilePermissions(rawValue: 0o755), of: .path(path.appending("content")))
        }
        try device.setPermissions(FilePermissions(rawValue: 0o755), of: .path("/file"))
        let tree = try ConfinedDirectory("/", on: user)
        for (path, isBackup) in [
            ("backup", true), ("other", false), ("named", false), ("file", false), ("missing", false),
        ] as [(POSIXPath, Bool)] {
            #expect(BackupManifest.isBackup(path, in: tree) == isBackup, "\(path)")
        }
    }

    @Test(
        "copy makes no file store above a backup, and changes nothing in one",
        arguments: [
            ("file:fs", "file:above"), ("file:fs", "file:above/b1"), ("tree:src", "file:above"),
            ("tree:src", "tree:above/b1/content"), ("file:fs", "tree:above/b1/content/plain"),
            ("tree:src", "tree:above/b1/content/new"), ("tree:src", "tree:link"),
            ("file:fs", "file:above/b1/content/files"), ("kv:data/kv", "kv:above/b1/content/kv"),
        ])
    func backupAroundDestination(source: String, destination: String) async throws {
        try scratch.plant("data/plain/x", "plain")
        try await makeBackups()
        try await makeFiles("fs", ["b1/manifest", "b1/content/plain/x"])
        try scratch.plant("src/plain/x", "other")
        try FileManager.default.createDirectory(atPath: scratch.path("above"), withIntermediateDirectories: true)
        try FileManager.default.copyItem(atPath: scratch.path("b1"), toPath: scratch.path("above/b1"))
        try FileManager.default.createSymbolicLink(
            atPath: scratch.path("link"), withDestinationPath: scratch.path("above/b1/content"))
        let before = try files("above")
        for options in [["--dry-run"], [], ["--delete"]] {
            let run = try copy(source, destination, options)
            #expect([2, 64].contains(run.status), "\(options): \(run.status) \(run.output)")
            #expect(run.errors.contains("backup"), "\(run.errors)")
            #expect(try files("above") == before, "\(options)")
        }
        #expect(try verify("above/b1").status == 0)
    }

    @Test("copy keeps a backup in the destination whole and lists it, or makes it that of the source")
    func backupInDestination() async throws {
        try await makeBackups()
        for name in ["dst/bk", "dst/plain"] {
            try FileManager.default.createDirectory(
                atPath: scratch.path("dst"), withIntermediateDirectories: true)
            try FileManager.default.copyItem(atPath: scratch.path("b1"), toPath: scratch.path(name))
        }
        let before = try files("dst")
        try scratch.plant("src/n", "new")
        try scratch.plant("src/bk/manifest", "other")
        try scratch.plant("src/bk/content/x", "other")
        for options in [["--dry-run"], []] {
            let run = try copy("tree:src", "tree:dst", options)
            #expect(run.status == 2, "\(run.output)")
            #expect(try keys(run, "fail") == ["bk/content/x", "bk/manifest"], "\(run.output)")
        }
        try FileManager.default.removeItem(atPath: scratch.path("src/bk"))
        let kept = try copy("tree:src", "tree:dst", ["--delete"])
        #expect(kept.status == 2, "\(kept.output)")
        #expect(try keys(kept, "skip") == ["bk", "plain"], "\(kept.output)")
        #expect(try files("dst") == before.merging(["n": Data("new".utf8)]) { $1 })
        // A later backup at the same path replaces it, as any other files.
        try FileManager.default.removeItem(atPath: scratch.path("dst/plain"))
        try FileManager.default.copyItem(atPath: scratch.path("b2"), toPath: scratch.path("src/bk"))
        let newer = try copy("tree:src", "tree:dst", ["--delete", "--verify"])
        #expect(newer.status == 0, "\(newer.output) \(newer.errors)")
        #expect(try files("dst/bk") == files("b2"))
        let older = try copy("tree:b1", "tree:dst/bk", ["--delete"])
        #expect(older.status == 0, "\(older.output) \(older.errors)")
        #expect(try files("dst/bk") == files("b1"))
        #expect(try verify("dst/bk").status == 0)
    }

    @Test("nothing is written into a backup")
    func outputInBackup() async throws {
        try await makeBackups()
        let before = try files("b1")
        for place in ["b1/manifest", "b1/x", "b1/content/x"] {
            for words in [
                ["file", "get", scratch.path("data/files"), "b.txt", "-o", scratch.path(place)],
                ["copy", "kv:\(scratch.path("data/kv"))", "json:\(scratch.path(place))"],
                ["demo", "--directory", scratch.path(place)],
            ] {
                let run = try CommandRun(words)
                #expect(run.status == 64 && run.errors.contains("a backup"), "\(words) \(run.errors)")
            }
        }
        for (verb, place, rest) in [
            ("kv set", "kv", ["k0", "1"]), ("kv rm", "kv", ["k0"]), ("kv set", "new", ["k", "1"]),
            ("file set", "files", ["n", scratch.path("b2/manifest")]), ("file rm", "files", ["b.txt"]),
            ("secret set", "v", ["k", "--create", "--key-file", scratch.path("key")]),
        ] {
            let words = verb.split(separator: " ").map(String.init) + [scratch.path("b1/content/\(place)")] + rest
            let run = try CommandRun(words, input: "1")
            #expect(run.status == (verb == "secret set" ? 1 : 64), "\(words) \(run.errors)")
            #expect(run.errors.contains("a backup"), "\(words) \(run.errors)")
        }
        // Nor is the key of a vault elsewhere created in one.
        for place in ["b1/key", "b1/content/v/new-key"] {
            let key = ["--key-file", scratch.path(place), "--create"]
            let run = try CommandRun(["secret", "set", scratch.path("elsewhere"), "k"] + key, input: "1")
            #expect(run.status == 1 && run.errors.contains("a backup"), "\(place) \(run.errors)")
        }
        #expect(!FileManager.default.fileExists(atPath: scratch.path("elsewhere")))
        #expect(try files("b1") == before)
    }

    @Test("a manifest that lists a file twice is altered, also with the right checksum")
    func fileListedTwice() async throws {
        try await makeBackups()
        let manifest = scratch.url.appendingPathComponent("b1/manifest")
        var lines = try String(contentsOf: manifest, encoding: .utf8).split(separator: "\n").map(String.init)
        let file = try #require(lines.first { $0.contains("b.txt") })
        let count = lines.count { $0.contains("\"path\"") } + 1
        lines[lines.count - 1] = file
        let body = lines.map { $0 + "\n" }.joined()
        let sum = SHA256.hash(data: Data(body.utf8)).map { String(format: "%02x", $0) }.joined()
        try Data((body + "{\"files\":\(count),\"sha256\":\"\(sum)\"}\n").utf8).write(to: manifest)
        let run = try CommandRun(["restore", scratch.path("b1"), scratch.path("r")])
        #expect(run.status == 1 && run.errors.contains("twice"), "\(run.output) \(run.errors)")
        #expect(!FileManager.default.fileExists(atPath: scratch.path("r")))
    }

    @Test("a file that is altered after the backup was verified is not restored, nor are the others")
    func alteredMeanwhile() throws {
        for name in ["a", "b"] { try scratch.plant("data/\(name)", "text") }
        #expect(try CommandRun(["backup", scratch.path("data"), scratch.path("b1")]).status == 0)
        // The lines about added files fill the pipe, so that the command waits for the reader before it copies.
        let names = (1000..<1300).map { String(repeating: "f", count: 240) + "\($0)" }
        for name in names { try scratch.plant("b1/content/\(name)") }
        let (output, errors) = (Pipe(), try ChildProcess.unnamedFile())
        let restore = try ChildProcess(
            CommandRun.executable(), ["restore", scratch.path("b1"), scratch.path("r")], output: .pipe(output),
            errors: .file(errors))
        #expect(try output.fileHandleForReading.read(upToCount: 1)?.count == 1)
        try scratch.plant("b1/content/b", "tixt")
        _ = try output.fileHandleForReading.readToEnd()
        #expect(restore.wait() == .exit(1))
        let message = String(decoding: try ChildProcess.content(of: errors), as: UTF8.self)
        #expect(message == "Error: b in the backup is altered or damaged; nothing is restored\n")
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).sorted() == ["b1", "data"])
    }

    @Test("a backup of a backup is a copy of it")
    func backupOfBackup() async throws {
        try await makeBackups()
        #expect(try CommandRun(["backup", scratch.path("b2"), scratch.path("bb")]).status == 0)
        #expect(try CommandRun(["restore", scratch.path("bb"), scratch.path("r")]).status == 0)
        #expect(try files("r") == files("b2"))
        #expect(try verify("r").status == 0)
    }

    @Test(
        "repair changes nothing in a backup, given as it is, by its content or by a link",
        arguments: ["b", "b/content", "link"])
    func repairOfBackup(path: String) async throws {
        try makeStore("data/kv")
        try makeVault("data/v")
        var vault = try #require(files("data")["v/vault"])
        vault[vault.count - 3] ^= 1
        try vault.write(to: scratch.url.appendingPathComponent("data/v/vault"))
        _ = try CommandRun(["backup", scratch.path("data"), scratch.path("b")])
        try FileManager.default.createSymbolicLink(atPath: scratch.path("link"), withDestinationPath: "b/content")
        let before = try files("b")
        let run = try CommandRun(["repair", scratch.path(path), "--key-file", scratch.path("data/v/key")])
        #expect(run.status == 2 && run.output.contains("in a backup"), "\(run.status) \(run.output) \(run.errors)")
        #expect(try files("b") == before)
        #expect(try verify("b").status == 0)
    }

    @Test(
        "the directories of a restored backup have the modes of the manifest", arguments: [0o555, 0o311, 0o500, 0o750])
    func directoryModes(mode: Int) throws {
        try scratch.plant("data/d/e/f", "text")
        for path in ["data/d/e", "data/d", "data"] {
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: scratch.path(path))
        }
        defer {
            for path in ["data", "data/d", "data/d/e", "r", "r/d", "r/d/e"] {
                try? FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: scratch.path(path))
            }
        }
        #expect(try CommandRun(["backup", scratch.path("data"), scratch.path("b")]).status == 0)
        #expect(try CommandRun(["restore", scratch.path("b"), scratch.path("r")]).status == 0)
        for path in ["r", "r/d", "r/d/e"] {
            let found = try FileManager.default.attributesOfItem(atPath: scratch.path(path))[.posixPermissions] as? Int
            #expect(found == mode, "\(path)")
        }
    }

    // MARK: Markers

    private func overwrite(_ path: String, at offset: Int, _ text: String) throws {
        let file = scratch.url.appendingPathComponent(path)
        var content = try Data(contentsOf: file)
        content.replaceSubrange(offset..<offset + text.utf8.count, with: Data(text.utf8))
        try content.write(to: file)
    }

    @Test(
        "damage is found beside a lock without a marker, and beside a marker of other content",
        arguments: [true, false])
    func damageInUnknownStore(isMissing: Bool) throws {
        try makeStore("x/kv")
        try makeVault("x/v")
        for name in ["kv/#store-key-value", "v/#store-vaults"] {
            let path = scratch.path("x/\(name)")
            if isMissing {
                try FileManager.default.removeItem(atPath: path)
            } else {
                try Data(repeating: 0, count: 16).write(to: URL(fileURLWithPath: path))
            }
        }
        let key = ["--key-file", scratch.path("x/v/key")]
        #expect(try CommandRun(["check", scratch.path("x")] + key).status == 0)
        #expect(chmod(scratch.path("x/v/key"), 0o644) == 0)
        let exposed = try CommandRun(["repair", scratch.path("x")])
        #expect(exposed.status == 2 && exposed.output.contains("left as it is"), "\(exposed.output)")
        let mode = try FileManager.default.attributesOfItem(atPath: scratch.path("x/v/key"))[.posixPermissions] as? Int
        #expect(mode == 0o644)
        #expect(chmod(scratch.path("x/v/key"), 0o600) == 0)
        try overwrite("x/kv/log", at: 100, "XX")
        try overwrite("x/v/vault", at: 60, "XX")
        let before = try files("x")
        let check = try CommandRun(["check", scratch.path("x"), "--json"] + key)
        #expect(check.status == 1, "\(check.output)")
        #expect(try check.summary()["damaged"] as? Int == 2, "\(check.output)")
        #expect(try CommandRun(["repair", scratch.path("x")] + key).status == 2)
        #expect(try CommandRun(["backup", scratch.path("x"), scratch.path("b")]).status == 2)
        #expect(try files("x") == before)
    }

    @Test("a damaged marker beside a whole one is repaired, and named by a verb that it keeps from writing")
    func damagedMarker() async throws {
        try makeStore("k")
        try makeVault("k")
        try await makeFiles("fs", ["a"])
        let before = try files("k")
        try overwrite("k/#store-vaults", at: 3, "X")
        try overwrite("fs/#store-files", at: 3, "X")
        for words in [
            ["kv", "set", scratch.path("k"), "a", "1"], ["file", "set", scratch.path("fs"), "new"],
            ["file", "rm", scratch.path("fs"), "a"],
            ["secret", "set", scratch.path("k/vault"), "--key-file", scratch.path("k/key"), "token"],
        ] {
            let run = try CommandRun(words, input: "text")
            #expect(
                run.status != 0 && run.errors.contains("#store-") && run.errors.contains("forge repair"),
                "\(run.errors)")
        }
        let run = try CommandRun(["repair", scratch.path("k")])
        #expect(run.status == 0, "\(run.output) \(run.errors)")
        #expect(try files("k") == before)
        #expect(try CommandRun(["kv", "set", scratch.path("k"), "a", "1"]).status == 0)
    }

    @Test("a log that is a directory is damage of its store")
    func logDirectory() throws {
        try makeStore("x")
        try makeStore("x/kv")
        try scratch.plant("x/note", "text")
        for name in ["x", "x/kv"] {
            try FileManager.default.removeItem(atPath: scratch.path("\(name)/log"))
            try scratch.plant("\(name)/log/file", "text")
        }
        let check = try CommandRun(["check", scratch.path("x"), "--json"])
        #expect(check.status == 1, "\(check.output)")
        let damaged = try check.rows().filter { $0["state"] as? String == "damaged" }
        #expect(damaged.compactMap { $0["path"] as? String } == ["kv/log", "log"])
        #expect(try CommandRun(["repair", scratch.path("x")]).status == 2)
        #expect(try CommandRun(["backup", scratch.path("x"), scratch.path("b")]).status == 2)
        #expect(try verify("b").status == 0)
    }

    @Test("a key file that other users can read is repaired under all its names")
    func linkedKey() throws {
        try makeVault("v")
        #expect(chmod(scratch.path("v/key"), 0o644) == 0)
        try FileManager.default.linkItem(atPath: scratch.path("v/key"), toPath: scratch.path("v/second"))
        let run = try CommandRun(["repair", scratch.path("v")])
        let reasons = ["readable by other users; mode 0600", "mode 0600 since another name of the file was repaired"]
        let lines = zip(["key", "second"], reasons).map { "repair  \($0)  (\($1))\n" }.joined()
        #expect(run.status == 0 && run.output == lines + "2 damaged, 2 repaired, 0 failed\n", "\(run.output)")
        #expect(try CommandRun(["check", scratch.path("v")]).status == 0)
    }

    @Test("secret set, secret rm and --create change no directory of vaults of a later version")
    func laterVaults() throws {
        try makeVault("v")
        try Data(repeating: 9, count: 40).write(to: scratch.url.appendingPathComponent("v/#store-vaults"))
        try FileManager.default.createDirectory(atPath: scratch.path("v/below"), withIntermediateDirectories: false)
        let before = try files("v")
        let key = ["--key-file", scratch.path("v/key")]
        for words in [
            ["set", scratch.path("v/vault"), "token"], ["rm", scratch.path("v/vault"), "token"],
            ["set", scratch.path("v/new"), "token", "--create"],
            ["set", scratch.path("v/below/new"), "token", "--create"],
        ] {
            let run = try CommandRun(["secret"] + words + key, input: "text")
            #expect(run.status == 1 && run.errors.contains("does not know"), "\(words) \(run.errors)")
        }
        let elsewhere = ["--key-file", scratch.path("v/other")]
        let run = try CommandRun(
            ["secret", "set", scratch.path("w/new"), "token", "--create"] + elsewhere, input: "text")
        #expect(run.status == 1, "\(run.errors)")
        #expect(try files("v") == before)
        #expect(try CommandRun(["secret", "get", scratch.path("v/vault"), "token"] + key).output == "x\n")
        // An interrupted creation has left no marker.
        try FileManager.default.removeItem(atPath: scratch.path("v/#store-vaults"))
        #expect(try CommandRun(["secret", "set", scratch.path("v/vault"), "token"] + key, input: "text").status == 0)
    }

    @Test("an output gets no name that only stores use", arguments: ["#store-files", "#lock", "#journal-0"])
    func reservedOutput(name: String) async throws {
        try await makeBackups()
        try scratch.plant("out/file", "text")
        let place = scratch.path("out/\(name)")
        for words in [
            ["file", "get", scratch.path("data/files"), "b.txt", "-o", place],
            ["backup", scratch.path("data"), place], ["restore", scratch.path("b1"), place],
            ["copy", "kv:\(scratch.path("data/kv"))", "json:\(place)"],
        ] {
            let run = try CommandRun(words)
            #expect(run.status == 64, "\(words) \(run.errors)")
        }
        #expect(try Array(files("out").keys) == ["file"])
    }

    @Test("a copy of a tree goes on after a lock that is a pipe")
    func pipeAsLock() throws {
        try makeStore("src/kv", keys: 4)
        try scratch.plant("src/z", "new")
        try makeStore("dst/kv")
        let log = try files("dst")["kv/log"]
        try FileManager.default.removeItem(atPath: scratch.path("dst/kv/#lock"))
        #expect(mkfifo(scratch.path("dst/kv/#lock"), 0o600) == 0)
        let run = try copy("tree:src", "tree:dst")
        #expect(run.status == 2, "\(run.output) \(run.errors)")
        #expect(try keys(run, "fail").contains("kv/log"), "\(run.output)")
        #expect(try Data(contentsOf: scratch.url.appendingPathComponent("dst/kv/log")) == log)
        #expect(try Data(contentsOf: scratch.url.appendingPathComponent("dst/z")) == Data("new".utf8))
    }
}

extension KeptStoreTests {
    // MARK: Dry runs

    @Test("a dry run of a copy fails where the copy does, and tells what is replaced", arguments: ["tree", "file"])
    func dryRunOfCopy(scheme: String) throws {
        try scratch.plant("src/dir/f", "new")
        try scratch.plant("src/link", "new")
        try scratch.plant("dst/dir", "a file")
        for options in [["--dry-run"], []] {
            if scheme == "tree" {
                try? FileManager.default.removeItem(atPath: scratch.path("dst/link"))
                try FileManager.default.createSymbolicLink(
                    atPath: scratch.path("dst/link"), withDestinationPath: "nowhere")
            }
            let run = try copy("tree:src", "\(scheme):dst", options)
            #expect(run.status == 2, "\(run.output) \(run.errors)")
            #expect(try keys(run, "fail") == ["dir/f"], "\(run.output)")
            if scheme == "tree", !options.isEmpty { #expect(try keys(run, "replace") == ["link"], "\(run.output)") }
        }
    }

    @Test("a dry run of a copy to lines fails where the copy does")
    func dryRunOfLines() throws {
        try makeStore("kv")
        for place in ["/dev/full", scratch.path("kv/x")] {
            for options in [["--dry-run"], []] {
                let run = try CommandRun(["copy", "kv:\(scratch.path("kv"))", "json:\(place)"] + options)
                #expect(run.status == (place == "/dev/full" ? 1 : 64), "\(run.output) \(run.errors)")
            }
        }
    }

    @Test("a dry run of repair fails where the repair does")
    func dryRunOfRepair() throws {
        try makeVault("v")
        try overwrite("v/vault", at: 60, "XX")
        try scratch.plant("v/quarantine", "a file")
        for options in [["--dry-run"], []] {
            let run = try CommandRun(["repair", scratch.path("v"), "--key-file", scratch.path("v/key")] + options)
            #expect(run.status == 2, "\(run.output) \(run.errors)")
        }
    }

    @Test("an error of a manifest has its path, and a version that never was is no later one")
    func messages() throws {
        try scratch.plant(
            "b/manifest", #"{"created":"2024-01-01T00:00:00Z","format":"forge-backup","version":0}"# + "\n")
        try scratch.plant("b/content/x", "text")
        let version = try verify("b")
        #expect(version.status == 1 && version.errors.contains("altered"), "\(version.errors)")
        try scratch.plant(
            "b/manifest",
            #"{"created":"2024-01-01T00:00:00Z","format":"forge-backup","version":1}"# + "\n"
                + String(repeating: "x", count: (1 << 20) + (1 << 17)))
        let long = try verify("b")
        #expect(long.errors.contains("b/manifest: a line is longer"), "\(long.errors)")
    }
}
