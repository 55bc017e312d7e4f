import ChildProcesses
import ForgeStorage
import Foundation
import Testing

@testable import ForgeCommands

@Suite("nothing is skipped, and nothing is guessed, in silence")
struct SilenceTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    private func exists(_ path: String) -> Bool { FileManager.default.fileExists(atPath: scratch.path(path)) }

    // MARK: Arguments

    @Test("the space of a file with several hard links counts once")
    func linkedSpace() throws {
        for name in ["one", "two"] {
            try FileManager.default.createDirectory(atPath: scratch.path(name), withIntermediateDirectories: true)
        }
        try Data(count: 1 << 16).write(to: scratch.url.appendingPathComponent("one/file"))
        let before = try CommandRun(["du", scratch.url.path, "--json"]).rows().last?["space"] as? Int
        try FileManager.default.linkItem(atPath: scratch.path("one/file"), toPath: scratch.path("two/file"))
        let after = try CommandRun(["du", scratch.url.path, "--json"]).rows().last
        #expect(after?["space"] as? Int == before && after?["files"] as? Int == 2, "\(String(describing: after))")
    }

    @Test(
        "an unknown option is wrong usage, and the message names --",
        arguments: [
            ["kv", "set", "@/s", "-height", "180"], ["kv", "set", "@/s", "key", "-height"],
            ["kv", "get", "@/s", "-xyz"],
            ["kv", "get", "@/s", "-x"], ["file", "set", "@/f", "-hidden"], ["check", "-help-me"], ["du", "--heigth"],
        ])
    func unknownOption(words: [String]) throws {
        let run = try CommandRun(words.map { $0.replacing("@", with: scratch.url.path) })
        #expect(run.status == 64, "\(run.status) \(run.output)")
        #expect(run.output.isEmpty)
        #expect(run.errors.contains("Write -- before an argument"), "\(run.errors)")
        #expect(!exists("s"))
    }

    @Test("a key or value that begins with a hyphen follows --")
    func hyphens() throws {
        #expect(try CommandRun(["kv", "set", scratch.path("s"), "--", "-height", "-180"]).status == 0)
        #expect(try CommandRun(["kv", "get", scratch.path("s"), "--", "-height"]).output == "-180\n")
        let none = try CommandRun(["kv", "get", scratch.path("s"), "--", "--json"])
        #expect(none.errors == "Error: kv get --json: there is no such key in \(scratch.path("s"))\n")
    }

    @Test("file set replaces the file of a key by another file, but not with --new")
    func replacedFile() throws {
        for name in ["one", "two"] { try scratch.plant(name, name) }
        func set(_ words: String...) throws -> CommandRun {
            try CommandRun(["file", "set", scratch.path("f"), "a"] + words)
        }
        func content() throws -> String { try String(contentsOfFile: scratch.path("f/a"), encoding: .utf8) }
        #expect(try set(scratch.path("one"), "--new").status == 0)
        let taken = try set(scratch.path("two"), "--new")
        #expect(taken.status == 1 && taken.errors.hasPrefix("Error: copy a: exists already"), "\(taken.errors)")
        #expect(try content() == "one")
        #expect(try set(scratch.path("two")).status == 0)
        #expect(try content() == "two")
    }

    @Test("a key that leads to another store is refused as a key, and a store of another kind is not marked")
    func otherStore() throws {
        #expect(try CommandRun(["kv", "set", scratch.path("s"), "key", "1"]).status == 0)
        try scratch.plant("f/a")
        let before = try FileManager.default.subpathsOfDirectory(atPath: scratch.url.path).sorted()
        for (verb, operation) in [("set", "save"), ("get", "load"), ("rm", "delete")] {
            let run = try CommandRun(["file", verb, scratch.path("f"), "../s/log"], input: "text")
            #expect(run.status == 1, "\(run.status)")
            #expect(run.errors == "Error: \(operation) ../s/log: the key has a component . or ..\n")
        }
        let set = try CommandRun(["file", "set", scratch.path("s"), "log"], input: "text")
        #expect(set.status == 64 && set.errors == "Error: log is a file of a store; choose another output\n")
        #expect(try FileManager.default.subpathsOfDirectory(atPath: scratch.url.path).sorted() == before)
    }

    @Test("an output is not written over a vault or key that no store has marked", arguments: ["vault", "key"])
    func unmarkedVault(name: String) async throws {
        let directory = scratch.url.appendingPathComponent("v")
        let key = try VaultKeyFile.loadOrCreate(at: directory.appendingPathComponent("key"))
        try VaultCrypt(at: directory.appendingPathComponent("vault"), key: key).set("x", for: CryptKey(key: "token"))
        for marker in ["#store-vaults", "#lock-vaults"] {
            try FileManager.default.removeItem(atPath: scratch.path("v/\(marker)"))
        }
        try await DiskFileStore(root: scratch.url.appendingPathComponent("f")).save(Data("text".utf8), to: "a")
        let file = directory.appendingPathComponent(name)
        let before = try Data(contentsOf: file)
        let run = try CommandRun(["file", "get", scratch.path("f"), "a", "-o", file.path])
        #expect(run.status == 64, "\(run.status)")
        #expect(run.errors == "Error: \(file.path) is a file of a store; choose another output\n")
        #expect(try Data(contentsOf: file) == before)
    }

    @Test("a verb whose standard input or error is closed reads and writes no file of a store in its place")
    func closedStreams() throws {
        #expect(try CommandRun(["kv", "set", scratch.path("s"), "key", "1"]).status == 0)
        let log = try Data(contentsOf: scratch.url.appendingPathComponent("s/log"))
        let set = try CommandRun(
            ["file", "set", scratch.path("f"), "a"], prefix: ["/bin/sh", "-c", "exec \"$0\" \"$@\" <&-"])
        #expect(set.status == 1, "\(set.status)")
        #expect(set.errors == "Error: cannot read standard input: Bad file descriptor (EBADF)\n")
        #expect(!exists("f/a"))
        let remove = try CommandRun(
            ["kv", "rm", scratch.path("s"), "none"], prefix: ["/bin/sh", "-c", "exec \"$0\" \"$@\" 2>&-"])
        #expect(remove.status == 4 && remove.output.isEmpty && remove.errors.isEmpty, "\(remove.status)")
        #expect(try Data(contentsOf: scratch.url.appendingPathComponent("s/log")) == log)
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path("s")).count == 4)
    }

    @Test(
        "a value that looks like JSON and cannot be stored as it is refused, unless a text is meant",
        arguments: [
            "{\"a\":1,\"a\":2}", String(repeating: "[", count: 65) + String(repeating: "]", count: 65), "[1,]",
            "{a: 1}",
            "\"open", " [", "1e400",
        ])
    func invalidJSON(value: String) throws {
        let run = try CommandRun(["kv", "set", scratch.path("s"), "key", value])
        #expect(run.status == 64 && run.errors.contains("--string"), "\(run.status) \(run.errors)")
        #expect(try CommandRun(["kv", "get", scratch.path("s"), "key"]).status == 4)
        #expect(try CommandRun(["kv", "set", scratch.path("s"), "key", value, "--string"]).status == 0)
        #expect(try CommandRun(["kv", "get", scratch.path("s"), "key"]).output == value + "\n")
    }

    @Test("a text that is no JSON is stored as it is", arguments: ["dusk", "10 apples", "1,5", "a [1]", "tru", ""])
    func plainText(value: String) throws {
        #expect(try CommandRun(["kv", "set", scratch.path("s"), "key", value]).status == 0)
        #expect(try CommandRun(["kv", "get", scratch.path("s"), "key"]).output == value + "\n")
    }

    @Test("a place has the same name for every verb")
    func places() throws {
        let (kv, files) = ("kv:\(scratch.path("s"))", "file:\(scratch.path("f"))")
        #expect(try CommandRun(["kv", "set", kv, "key", "1"]).status == 0)
        #expect(exists("s/log"))
        for verb in ["get", "rm"] { #expect(try CommandRun(["kv", verb, kv, "key"]).status == 0) }
        #expect(try CommandRun(["kv", "list", kv]).status == 0)
        #expect(try CommandRun(["file", "set", files, "a"], input: "text").status == 0)
        #expect(exists("f/a"))
        #expect(try CommandRun(["file", "get", "file://\(scratch.path("f"))", "a"]).output == "text")
        #expect(try CommandRun(["file", "list", files]).output.contains("a"))
        #expect(try CommandRun(["file", "rm", files, "a"]).status == 0)
        for words in [
            ["kv", "set", files, "key", "1"], ["file", "set", kv, "a"], ["kv", "list", "tree:x"], ["check", kv],
            ["du", files], ["backup", "file:x", scratch.path("b")], ["backup", scratch.path("s"), "kv:b"],
            ["repair", kv], ["restore", "file:x", "y"], ["file", "get", files, "a", "-o", "json:x"],
            ["file", "set", files, "a", "file:x"], ["secret", "list", "kv:v", "--key-file", "k"],
            ["secret", "list", "v", "--key-file", "file:k"], ["check", "d", "--key-file", "file:k"], ["serve", files],
            ["serve", "d", "--vault-key", "file:k"], ["demo", "--directory", "tree:d"], ["demo", "--avatar", "file:x"],
            ["watch", "tree:d"], ["watch", "d"], ["copy", "d", kv], ["copy", kv, "d"],
        ] {
            let run = try CommandRun(words)
            #expect(run.status == 64, "\(words) \(run.status) \(run.errors)")
        }
    }

    // MARK: Copies

    @Test("everything in a file store that is not copied is listed, and the status is that of partial success")
    func leftOut() async throws {
        let store = DiskFileStore(root: scratch.url.appendingPathComponent("f"))
        try await store.save(Data("1".utf8), to: "a")
        try await store.save(Data("2".utf8), to: "d/b")
        try scratch.plant("f/back\\slash", "3")
        try scratch.plant("f/d/#tmp-note", "4")
        try FileManager.default.createSymbolicLink(
            atPath: scratch.path("f/link"), withDestinationPath: scratch.path("f/a"))
        try FileKVStore(at: scratch.url.appendingPathComponent("f/settings")).set(KVKey<Int>("key"), value: 1)
        let run = try CommandRun(["copy", "file:\(scratch.path("f"))", "tree:\(scratch.path("t"))", "--json"])
        #expect(run.status == 2, "\(run.status) \(run.errors)")
        let listed = Dictionary(
            uniqueKeysWithValues: try run.rows().map { ($0["key"] as? String ?? "", $0["action"] as? String ?? "") })
        #expect(
            listed == ["back\\slash": "fail", "d/#tmp-note": "fail", "link": "skip", "settings": "skip"], "\(listed)")
        let list = try CommandRun(["file", "list", scratch.path("f"), "--json"])
        #expect(list.status == 2, "\(list.status) \(list.errors)")
        let message = "3 items cannot be read as files of the store: see the list"
        #expect(list.errors == #"{"code":2,"kind":"partial","message":"\#(message)"}"# + "\n")
        let rows = try list.rows()
        #expect(
            rows.compactMap { $0["key"] as? String } == ["a", "d/b", "link", "back\\slash", "d/#tmp-note", "settings"])
        #expect(rows.map { $0["unlisted"] is String } == [false, false, false, true, true, true], "\(list.output)")
        let below = try CommandRun(["file", "list", scratch.path("f"), "d"])
        #expect(below.status == 2 && below.output.contains("d/#tmp-note  not listed  "), "\(below.output)")
        #expect(!below.output.contains("slash"), "\(below.output)")
        for words in [["list", scratch.path("f"), "settings"], ["get", scratch.path("f"), "settings/log"]] {
            let run = try CommandRun(["file"] + words)
            #expect(run.status == 1 && run.output.isEmpty, "\(words): \(run.output)")
            #expect(run.errors.contains("the root of another store: key-value store"), "\(run.errors)")
        }
        let summary = try run.summary()
        #expect(summary["copied"] as? Int == 2 && summary["failed"] as? Int == 2 && summary["skipped"] as? Int == 2)
        let skipping = try CommandRun(["copy", "tree:\(scratch.path("t"))", "tree:\(scratch.path("u"))"])
        #expect(skipping.status == 0, "\(skipping.output)")
        try FileManager.default.createSymbolicLink(atPath: scratch.path("t/link"), withDestinationPath: "a")
        #expect(try CommandRun(["copy", "tree:\(scratch.path("t"))", "tree:\(scratch.path("u"))"]).status == 2)
    }

    @Test(
        "file list shows what is in a directory of another user that cannot be searched",
        .enabled(if: getuid() == 0 && CommandRun.obeyingModes != nil))
    func unsearchable() async throws {
        let store = DiskFileStore(root: scratch.url.appendingPathComponent("f"))
        for key in ["ok/a", "closed/b", "unreadable/c"] { try await store.save(Data("1".utf8), to: key) }
        for (path, mode) in [("f/closed", 0o744), ("f/unreadable", 0)] {
            let names = try FileManager.default.contentsOfDirectory(atPath: scratch.path(path))
            for path in [path] + names.map({ "\(path)/\($0)" }) {
                try #require(chown(scratch.path(path), 65534, 65534) == 0)
            }
            try #require(chmod(scratch.path(path), mode_t(mode)) == 0)
        }
        try #require(rename(scratch.path("f/ok/a"), scratch.path("f/ok/x\\y")) == 0)
        try FileManager.default.createDirectory(atPath: scratch.path("f/ok/d"), withIntermediateDirectories: true)
        let run = try CommandRun(
            ["file", "list", scratch.path("f"), "--json"], prefix: #require(CommandRun.obeyingModes))
        #expect(run.status == 2, "\(run.status) \(run.errors)")
        let rows = try run.rows()
        let shown = Set(rows.compactMap { $0["key"] as? String })
        #expect(shown == ["unreadable", "closed/b", "ok/x\\y"], "\(run.output)")
        #expect(rows.count == 3 && rows.count { $0["unlisted"] is String } == 2, "\(run.output)")
    }

    @Test(
        "of a damaged record of a copy or a backup, at most 64 values are lost", arguments: ["copy", "json", "backup"])
    func recordSize(verb: String) throws {
        do {
            let store = try FileKVStore(at: scratch.url.appendingPathComponent("s/kv"))
            for number in 0..<1000 { try store.set(KVKey<Int>("key.\(number)"), value: number) }
        }
        let (store, lines) = ("kv:\(scratch.path("s/kv"))", "json:\(scratch.path("lines"))")
        if verb == "json" { #expect(try CommandRun(["copy", store, lines]).status == 0) }
        let words =
            verb == "backup"
            ? ["backup", scratch.path("s"), scratch.path("b")]
            : ["copy", verb == "json" ? lines : store, "kv:\(scratch.path("b/content/kv"))"]
        #expect(try CommandRun(words).status == 0)
        let directory = scratch.url.appendingPathComponent("b/content/kv")
        var log = try Data(contentsOf: directory.appendingPathComponent("log"))
        log[log.count / 2] ^= 1
        try log.write(to: directory.appendingPathComponent("log"))
        let inspection = try #require(try KVInspection(of: directory))
        #expect((1000 - 64..<1000).contains(inspection.keyCount), "\(inspection.keyCount)")
    }

    // MARK: Stores in use

    @Test("kv set and kv rm write beside an app that shares the store")
    func besideApp() throws {
        let store = try FileKVStore(
            at: scratch.url.appendingPathComponent("s"), options: FileKVStore.Options(sharing: .shared))
        try store.set(KVKey<Int>("old"), value: 1)
        let set = try CommandRun(["kv", "set", scratch.path("s"), "key", "2"])
        #expect(set.status == 0, "\(set.status) \(set.errors)")
        #expect(try store.read(KVKey<Int>("key")) == 2)
        #expect(try CommandRun(["kv", "rm", scratch.path("s"), "old"]).status == 0)
        #expect(!store.contains(KVKey<Int>("old")))
    }

    @Test(
        "a signal that ends file get leaves no temporary file beside the output",
        arguments: [SIGINT, SIGTERM, SIGHUP])
    func interruptedGet(signal: Int32) async throws {
        let store = DiskFileStore(root: scratch.url.appendingPathComponent("f"))
        try await store.save(Data("x".utf8), to: "a")
        // Long, so that the signal comes in time; it has no blocks.
        try #require(truncate(scratch.path("f/a"), 4 << 30) == 0)
        try FileManager.default.createDirectory(atPath: scratch.path("out"), withIntermediateDirectories: true)
        var (end, message) = (ChildProcess.End.exit(0), "")
        // On a busy machine the file may be complete before the signal arrives: then once more.
        for _ in 0..<20 where end == .exit(0) {
            try? FileManager.default.removeItem(atPath: scratch.path("out/a"))
            let errors = try ChildProcess.unnamedFile()
            let process = try ChildProcess(
                CommandRun.executable(), ["file", "get", scratch.path("f"), "a", "-o", scratch.path("out/a")],
                errors: .file(errors))
            while try FileManager.default.contentsOfDirectory(atPath: scratch.path("out")).isEmpty, process.isRunning {
                usleep(200)
            }
            process.send(signal)
            end = process.wait(killingAfter: .seconds(60))
            message = String(decoding: try ChildProcess.content(of: errors), as: UTF8.self)
        }
        #expect(end == .exit(130) && message == "Error: interrupted\n", "\(end) \(message)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path("out")).isEmpty)
    }

    // MARK: Answers

    @Test(
        "directories that cannot be read are listed, and the others are treated",
        .enabled(if: CommandRun.obeyingModes != nil))
    func unreadableDirectories() throws {
        let prefix = try #require(CommandRun.obeyingModes)
        try scratch.plant("d/a/file", "12345")
        for name in ["closed", "shut"] { try scratch.plant("d/\(name)/file", "1") }
        defer { for name in ["closed", "shut"] { chmod(scratch.path("d/\(name)"), 0o700) } }
        for (count, name) in [(1, "closed"), (2, "shut")] {
            try #require(chmod(scratch.path("d/\(name)"), 0) == 0)
            let run = try CommandRun(["du", scratch.path("d"), "--json"], prefix: prefix)
            #expect(run.status == 2, "\(run.status) \(run.errors)")
            let failed = try run.rows().filter { $0["action"] as? String == "fail" }
            #expect(failed.compactMap { $0["path"] as? String } == Array(["closed", "shut"].prefix(count)))
            #expect(try run.summary()["bytes"] as? Int == 7 - count)
            let table = try CommandRun(["du", scratch.path("d")], prefix: prefix)
            let directories = count == 1 ? "1 directory" : "2 directories"
            #expect(table.status == 2 && table.errors == "Error: \(directories) could not be read\n", "\(table.errors)")
            let line = "\nfail  \(name)  (Permission denied (EACCES))\n"
            #expect(table.output.contains(line + "\(3 - count) file\(count == 1 ? "s" : ""), \(7 - count) B, "))
        }
        try scratch.plant("d/a/secret", "1")
        try #require(chmod(scratch.path("d/a/secret"), 0) == 0)
        let log = try makeLog()
        try scratch.plant("d/a/kv/log", log)
        try scratch.plant("d/z/kv/log", log)
        try #require(chmod(scratch.path("d/z/kv/log"), 0) == 0)
        for (words, status) in [
            (["check", scratch.path("d")], 1), (["repair", scratch.path("d")], 2),
            (["backup", scratch.path("d"), scratch.path("b")], 2),
            (["copy", "tree:\(scratch.path("d"))", "tree:\(scratch.path("t"))", "--verify"], 2),
        ] {
            let run = try CommandRun(words, prefix: prefix)
            #expect(run.status == Int32(status), "\(words): \(run.status) \(run.errors)")
            for name in ["a/secret  ", "closed  ", "shut  ", "z/kv/log  "] {
                let line = run.output.split(separator: "\n").first { $0.contains(name) }
                #expect(line?.hasSuffix("Permission denied (EACCES))") == true, "\(words): \(run.output)")
            }
            guard words[0] == "check" else { continue }
            #expect(run.output.split(separator: "  damaged (open: Permission denied (EACCES))\n").count == 5)
        }
        // A file store is created above what cannot be read: it cannot change that either.
        try scratch.plant("e/closed/file")
        try #require(chmod(scratch.path("e/closed"), 0) == 0)
        defer { chmod(scratch.path("e/closed"), 0o700) }
        let set = try CommandRun(["file", "set", scratch.path("e"), "a", scratch.path("d/a/file")], prefix: prefix)
        #expect(set.status == 0 && exists("e/a"), "\(set.errors)")
        for name in ["b/content", "t"] {
            #expect(try Data(contentsOf: scratch.url.appendingPathComponent("\(name)/a/file")) == Data("12345".utf8))
        }
    }

    private func makeLog() throws -> Data {
        try FileKVStore(at: scratch.url.appendingPathComponent("log-source")).set(KVKey<Int>("key"), value: 1)
        return try Data(contentsOf: scratch.url.appendingPathComponent("log-source/log"))
    }

    @Test("a log whose first record is cut off is not intact")
    func firstRecord() throws {
        do {
            let store = try FileKVStore(at: scratch.url.appendingPathComponent("s"))
            var batch = KVBatch()
            for number in 0..<50 { try batch.set(KVKey<String>("key.\(number)"), value: "value") }
            try store.commit(batch)
            try store.synchronize()
        }
        let log = scratch.url.appendingPathComponent("s/log")
        let bytes = try Data(contentsOf: log)
        let end = try #require(bytes.lastIndex { $0 != 0 })
        try bytes.prefix(end / 2).write(to: log)
        let run = try CommandRun(["check", scratch.path("s"), "--json"])
        #expect(run.status == 1, "\(run.output)")
        #expect(try run.rows().first?["state"] as? String == "damaged", "\(run.output)")
    }

    @Test("a file whose directory is taken fails with the error of the file store, if it is not a dry run")
    func takenDirectory() async throws {
        try scratch.plant("s/a/b")
        try await DiskFileStore(root: scratch.url.appendingPathComponent("fs")).save(Data("text".utf8), to: "a")
        for (options, reason) in [([], "save a/b: not a directory"), (["--dry-run"], "(open a: Not a directory")] {
            let run = try CommandRun(["copy", "tree:\(scratch.path("s"))", "file:\(scratch.path("fs"))"] + options)
            #expect(run.status == 1 && run.output.contains(reason), "\(run.output) \(run.errors)")
        }
    }

    @Test("a file is copied beside the log of a store without marker, which neither directory has marked")
    func besideUnmarkedLog() throws {
        #expect(try CommandRun(["kv", "set", scratch.path("t/kv"), "key", "1"]).status == 0)
        for name in try FileManager.default.contentsOfDirectory(atPath: scratch.path("t/kv")) where name != "log" {
            try FileManager.default.removeItem(atPath: scratch.path("t/kv/\(name)"))
        }
        try scratch.plant("s/kv/note", "text")
        let run = try CommandRun(["copy", "tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))"])
        #expect(run.status == 0, "\(run.output) \(run.errors)")
        #expect(exists("t/kv/note") && exists("t/kv/log"))
    }

    @Test("a file that another process changes or removes after it was copied is a failure with --verify")
    func changedCopy() throws {
        for path in ["s/a", "s/b", "s/d/a"] { try scratch.plant(path, "text") }
        // The lines about them fill the pipe, so that the command waits for the reader before it verifies.
        for number in 1000..<1300 {
            let name = String(repeating: "f", count: 200) + "\(number)"
            try #require(mkfifo(scratch.path("s/d/\(name)"), 0o600) == 0)
        }
        let output = Pipe()
        let copy = try ChildProcess(
            CommandRun.executable(), ["copy", "tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))", "--verify"],
            output: .pipe(output), errors: .null)
        let deadline = ContinuousClock.now + .seconds(60)
        while !exists("t/a") || !exists("t/b"), copy.isRunning, .now < deadline { usleep(1000) }
        try scratch.plant("t/a", "other")
        try FileManager.default.removeItem(atPath: scratch.path("t/b"))
        let lines = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        #expect(copy.wait() == .exit(2))
        let last = Array(lines.split(separator: "\n").suffix(3))
        try #require(last.count == 3)
        #expect(last[0].hasSuffix("/t/a  (differs when read back)"), "\(last)")
        #expect(last[1].hasSuffix("/t/b  (differs when read back)"), "\(last)")
        #expect(last[2] == "3 copied (12 B), 0 equal, 300 skipped, 2 failed, 1 verified")
    }

    @Test("the manifest of a backup has the attributes of files, which restore does not take from the copies")
    func attributes() async throws {
        let store = DiskFileStore(root: scratch.url.appendingPathComponent("data"))
        try await store.save(Data("text".utf8), to: "d/a", attributes: ["type": "note", "title": "ü"])
        try await store.save(Data("text".utf8), to: "b")
        #expect(try CommandRun(["backup", scratch.path("data"), scratch.path("b")]).status == 0)
        // As a copy by a program that does not know extended attributes.
        for name in ["d/a", "b"] {
            let file = scratch.url.appendingPathComponent("b/content/\(name)")
            let content = try Data(contentsOf: file)
            try FileManager.default.removeItem(at: file)
            try content.write(to: file)
        }
        let run = try CommandRun(["restore", scratch.path("b"), scratch.path("r")])
        #expect(run.status == 0, "\(run.errors)")
        let restored = DiskFileStore(root: scratch.url.appendingPathComponent("r"))
        #expect(try await restored.attributes(of: "d/a") == ["type": "note", "title": "ü"])
        #expect(try await restored.attributes(of: "b") == [:])
    }
}
