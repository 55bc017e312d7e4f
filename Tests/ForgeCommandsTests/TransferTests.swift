import ArgumentParser
import ChildProcesses
import ForgeStorage
import Foundation
import SystemPackage
import TestDepth
import Testing

@testable import ForgeCommands

@Suite("copy")
struct TransferTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    @Test("nothing is deleted if an item of the source failed, or in a directory whose store is unknown")
    func careful() async throws {
        try scratch.fillStore()
        try scratch.plant("lines", "{\"key\": \"other\"\n")
        let kv = scratch.path("kv")
        let before = try scratch.values("kv")
        let run = try CommandRun(["copy", "json:\(scratch.path("lines"))", "kv:\(kv)", "--delete"])
        #expect(run.status == 2 && run.errors.contains("nothing was deleted"), "\(run.status) \(run.errors)")
        #expect(try scratch.values("kv") == before)

        try scratch.plant("tree/file", "text")
        try scratch.plant("tree/back\\slash", "not a key")
        try scratch.plant("files/kept", "text")
        let incomplete = try CommandRun([
            "copy", "tree:\(scratch.path("tree"))", "file:\(scratch.path("files"))", "--delete", "--json",
        ])
        #expect(incomplete.status == 2 && incomplete.errors.contains("nothing was deleted"), "\(incomplete.errors)")
        // What was copied before is counted.
        let counts = try incomplete.summary()
        #expect(counts["copied"] as? Int == 1 && counts["failed"] as? Int == 1, "\(counts)")
        #expect(try scratch.files("files") == ["file": "text", "kept": "text"])

        try scratch.plant("source/file", "text")
        let unknown = ["u/#lock", "u/other", "v/#journal-0", "v/d/other", "w/#lock-vaults", "w/x"]
        for name in ["file", "#move-a", "#shared", "#reserve", "other"] + unknown {
            try scratch.plant("target/\(name)", "text")
        }
        let deleting = try CommandRun([
            "copy", "tree:\(scratch.path("source"))", "tree:\(scratch.path("target"))", "--delete",
        ])
        #expect(deleting.status == 2 && deleting.output.contains("4 deleted"), "\(deleting.output) \(deleting.errors)")
        let left = try FileManager.default.subpathsOfDirectory(atPath: scratch.path("target"))
        #expect(Set(left) == Set(["file", "u", "v", "v/d", "w"] + unknown))
    }

    @Test("nothing is deleted if the path of the source leads to another directory meanwhile")
    func replacedSource() async throws {
        try scratch.plant("s/a", "1")
        try scratch.plant("other/a", "1")
        try scratch.plant("t/a", "1")
        try scratch.plant("t/kept", "2")
        let arguments = try TransferArguments.parse([
            "tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))", "--delete",
        ])
        let log = TransferLog(arguments)
        let transfer = try FileTransfer(arguments, log)
        try FileManager.default.moveItem(atPath: scratch.path("s"), toPath: scratch.path("moved"))
        try FileManager.default.moveItem(atPath: scratch.path("other"), toPath: scratch.path("s"))
        let failure = await #expect(throws: CommandFailure.self) { try await transfer.run() }
        #expect(failure?.status == .partial)
        #expect(try scratch.files("t") == ["a": "1", "kept": "2"])
    }

    @Test("files of any size are counted and kept, with few descriptors open at a time")
    func manyFiles() throws {
        for number in 0..<450 { try scratch.plant("s/d\(number % 5)/\(number)", "\(number)") }
        try scratch.plant("s/long", String(repeating: "0123456789", count: 10_000))
        let all = try scratch.files("s")
        // Four tasks write 64 files each at a time.
        let limit = ["/bin/sh", "-c", "ulimit -n 350 && exec \"$0\" \"$@\""]
        func place(_ name: String) -> String { scratch.path(name) }
        for (words, count) in [
            (["copy", "tree:\(place("s"))", "file:\(place("f"))", "--verify", "--json"], "copied"),
            (["copy", "file:\(place("f"))", "tree:\(place("t"))", "--verify", "--json"], "copied"),
            (["copy", "tree:\(place("s"))", "tree:\(place("t"))", "--delete", "--verify", "--json"], "equal"),
            (["backup", place("f"), place("b"), "--json"], "files"),
            (["restore", place("b"), place("r"), "--json"], "files"), (["check", place("f"), "--json"], nil),
            (["repair", place("f"), "--json"], nil), (["du", place("f"), "--json"], nil),
        ] as [([String], String?)] {
            let run = try CommandRun(words, prefix: limit)
            #expect(run.status == 0, "\(words): \(run.errors)")
            guard let count, let found = try run.summary()[count] as? Int else { continue }
            if words[0] == "copy" {
                #expect(try found == all.count && run.summary()["verified"] as? Int == all.count, "\(words)")
            } else {
                // The marker of the file store, too.
                #expect((all.count...all.count + 1).contains(found), "\(words) \(found)")
            }
        }
        for name in ["f", "t", "r"] { #expect(try scratch.files(name) == all, "\(name)") }
    }

    @Test("each directory is closed when its files are copied or compared")
    func manyDirectories() throws {
        for number in 0..<100 { try scratch.plant("s/\(number)/file", "\(number)") }
        let run = try CommandRun(
            ["copy", "tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))", "--verify"],
            prefix: ["/bin/sh", "-c", "ulimit -n 64 && exec \"$0\" \"$@\""])
        #expect(run.status == 0, "\(run.errors)")
        #expect(run.output == "100 copied (190 B), 0 equal, 100 verified\n", "\(run.output)")
        #expect(try scratch.files("t") == scratch.files("s"))
    }

    @Test(
        "a file that is too large for the destination fails, and those stored with it are copied",
        arguments: ["tree", "file"])
    func tooLarge(scheme: String) throws {
        for (name, count) in [("a", 1), ("b", 60_000), ("c", 3), ("d", 100_000)] {
            try scratch.plant("s/\(name)", String(repeating: "x", count: count))
        }
        let run = try CommandRun(
            ["copy", "tree:\(scratch.path("s"))", "\(scheme):\(scratch.path("t"))", "--verify", "--json"],
            prefix: ["/bin/sh", "-c", "trap '' XFSZ; ulimit -f 40 && exec \"$0\" \"$@\""])
        #expect(run.status == 2, "\(run.errors)")
        let failed = try run.rows().filter { ($0["reason"] as? String)?.contains("EFBIG") == true }
        #expect(failed.compactMap { $0["key"] as? String }.sorted() == ["b", "d"], "\(run.output)")
        let counts = try run.summary()
        for (name, count) in ["copied": 2, "verified": 2, "failed": 2] {
            #expect(counts[name] as? Int == count, "\(name): \(counts)")
        }
        #expect(try scratch.files("t") == ["a": "x", "c": "xxx"])
        let names = try FileManager.default.contentsOfDirectory(atPath: scratch.path("t"))
        #expect(!names.contains { $0.hasPrefix("#tmp-") }, "\(names)")
    }

    @Test("what has disappeared since it was listed is no failure, and what has become a pipe is skipped")
    func changedSince() async throws {
        try scratch.plant("s/a", "1")
        try #require(mkfifo(scratch.path("s/pipe"), 0o600) == 0)
        try FileManager.default.createSymbolicLink(atPath: scratch.path("s/link"), withDestinationPath: ".")
        let arguments = try TransferArguments.parse([
            "tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))", "--verify",
        ])
        let source = try ConfinedDirectory(POSIXPath(arguments.source.url))
        let target = try FileTarget(arguments.destination)
        try target.prepare("", like: source)
        func copied(_ directory: POSIXPath, _ names: [POSIXPath]) async throws -> TransferLog {
            let log = TransferLog(arguments)
            var copy = FileGroupCopy(
                FileGroup(directory: directory, names: names), preparedWith: nil, from: source, to: target, arguments,
                log)
            try await copy.run()
            return log
        }
        let log = try await copied("", ["a", "gone", "pipe"])
        #expect(!log.isLeftOut("a") && log.isLeftOut("gone") && log.isLeftOut("pipe"))
        let failure = #expect(throws: CommandFailure.self) { try log.finish() }
        #expect(failure?.description == "1 item skipped: see the list")
        for directory in ["link", "none"] as [POSIXPath] {
            let log = try await copied(directory, ["a", "b"])
            for name in ["a", "b"] as [POSIXPath] { #expect(log.isLeftOut(directory.appending(name).shown)) }
            #expect(throws: Never.self) { try log.finish() }
        }
        #expect(try scratch.files("t") == ["a": "1"])
    }

    #if os(Linux)
    /// The descriptors of this process that lead to a file or directory at or below a path of the scratch directory.
    private func descriptors(_ name: String) throws -> [FileDescriptor] {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap { number in
            // Those of other tests may be closed meanwhile.
            let path = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(number)")
            guard let path, path == scratch.path(name) || path.hasPrefix(scratch.path(name) + "/") else { return nil }
            return CInt(number).map { FileDescriptor(rawValue: $0) }
        }
    }

    @Test("a file system is flushed through one directory, and a flush that fails is an error")
    func flush() throws {
        try scratch.plant("d/e/f", "1")
        do {
            let flush = BulkFlush()
            for name in ["d", "d/e"] { try flush.include(POSIXPath(scratch.url.appendingPathComponent(name))) }
            let open = try descriptors("d")
            try #require(open.count == 1)
            try flush.finish()
            // A descriptor that only stands for a path (O_PATH) cannot be flushed.
            let path = try FileDescriptor.open(
                FilePath(scratch.path("d")), .readOnly, options: FileDescriptor.OpenOptions(rawValue: 0o10_000_000))
            _ = try path.duplicate(as: open[0])
            try path.close()
            let failure = #expect(throws: FileSystemError.self) { try flush.finish() }
            #expect(failure?.errno == .badFileDescriptor)
        }
        #expect(try descriptors("d").isEmpty)
    }

    @Test("the file system of a copy is flushed, if it is not a dry run", arguments: [false, true])
    func flushedCopy(isDryRun: Bool) async throws {
        for path in ["s/a", "s/d/b", "t/kept"] { try scratch.plant(path, "1") }
        let words = ["tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))"]
        let arguments = try TransferArguments.parse(words + (isDryRun ? ["--dry-run"] : []))
        do {
            let transfer = try FileTransfer(arguments, TransferLog(arguments))
            try await transfer.run()
            // It is kept open for the flush.
            #expect(try descriptors("t").count == (isDryRun ? 0 : 1))
            withExtendedLifetime(transfer) {}
        }
        #expect(try descriptors("").isEmpty)
    }
    #endif

    @Test("a link in the destination is not followed, so a file is never compared with itself")
    func linkedDestination() throws {
        try scratch.plant("source/d/file", "text")
        try FileManager.default.createDirectory(atPath: scratch.path("target"), withIntermediateDirectories: true)
        try FileManager.default.createSymbolicLink(
            atPath: scratch.path("target/d"), withDestinationPath: scratch.path("source/d"))
        let run = try CommandRun([
            "copy", "tree:\(scratch.path("source"))", "tree:\(scratch.path("target"))", "--verify",
        ])
        #expect(run.status != 0 && !run.output.contains("1 equal"), "\(run.output)")
    }

    @Test("attributes of files are kept by copies of any size, exports, imports, backups and restores")
    func attributes() async throws {
        let contents = ["small": Data("text".utf8), "large": Data(repeating: 7, count: 3_000_000)]
        let source = DiskFileStore(root: scratch.url.appendingPathComponent("a"))
        for (key, content) in contents { try await source.save(content, to: "d/\(key)", attributes: ["type": key]) }
        let (a, b, c, tree) = (scratch.path("a"), scratch.path("b"), scratch.path("c"), scratch.path("tree"))
        for arguments in [
            ["copy", "file:\(a)", "file:\(b)", "--verify"], ["copy", "file:\(b)", "tree:\(tree)", "--verify"],
            ["copy", "tree:\(tree)", "file:\(c)", "--verify"], ["backup", c, scratch.path("backup")],
            ["restore", scratch.path("backup"), scratch.path("restored")],
        ] {
            let run = try CommandRun(arguments)
            #expect(run.status == 0, "\(arguments): \(run.errors)")
        }
        let restored = DiskFileStore(root: scratch.url.appendingPathComponent("restored"))
        for (key, content) in contents {
            #expect(try await restored.load("d/\(key)") == content)
            #expect(try await restored.attributes(of: "d/\(key)") == ["type": key])
        }
        // A file whose attributes alone differ is not equal.
        try await source.save(Data("text".utf8), to: "d/small", attributes: ["type": "other"])
        let again = try CommandRun(["copy", "file:\(a)", "file:\(b)"])
        #expect(again.output.hasPrefix("1 copied") || again.output.hasPrefix("1 replaced"), "\(again.output)")
        let copy = DiskFileStore(root: scratch.url.appendingPathComponent("b"))
        #expect(try await copy.attributes(of: "d/small") == ["type": "other"])
    }

    @Test("an attribute that is no text is copied to a directory, and a file store has none")
    func otherAttribute() throws {
        let fileSystem = SystemFileSystem()
        func attributes(_ path: String, _ new: [String: [UInt8]] = [:]) throws -> [String: [UInt8]] {
            let file = try fileSystem.open(POSIXPath(scratch.url.appendingPathComponent(path)), .readWrite)
            defer { fileSystem.discard(file) }
            try fileSystem.setFileAttributes(new, of: file)
            return try fileSystem.fileAttributes(of: file)
        }
        let other: [String: [UInt8]] = ["type": [0xFF]]
        for (name, count) in [("long", 100_000), ("other", 1), ("short", 1)] {
            try scratch.plant("s/\(name)", String(repeating: "x", count: count))
        }
        for name in ["long", "other"] { #expect(try attributes("s/\(name)", other) == other) }
        let tree = try CommandRun(["copy", "tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))"])
        #expect(tree.status == 0, "\(tree.output)")
        #expect(try attributes("t/long") == other && attributes("t/other") == other && attributes("t/short") == [:])
        let run = try CommandRun(["copy", "tree:\(scratch.path("s"))", "file:\(scratch.path("f"))", "--json"])
        #expect(run.status == 2, "\(run.output)")
        let failed = try run.rows().filter { $0["action"] as? String == "fail" }
        #expect(failed.compactMap { $0["key"] as? String }.sorted() == ["long", "other"], "\(run.output)")
        #expect(try scratch.files("f") == ["short": "x"])
    }

    @Test("files survive an import, a copy and an export, byte for byte")
    func fileTrees() throws {
        try scratch.plant("tree/a.txt", "one")
        try scratch.plant("tree/d/e/b.txt", String(repeating: "two", count: 200_000))
        try scratch.plant("tree/d/empty", "")
        let before = try scratch.files("tree")
        #expect(try CommandRun(["copy", "tree:\(scratch.path("tree"))", "file:\(scratch.path("a"))"]).status == 0)
        #expect(try CommandRun(["copy", "file:\(scratch.path("a"))", "file:\(scratch.path("b"))"]).status == 0)
        let export = try CommandRun(
            ["copy", "file:\(scratch.path("b"))", "tree:\(scratch.path("c"))", "--verify", "--json"])
        #expect(export.status == 0, "\(export.errors)")
        let summary = try export.summary()
        #expect(summary["copied"] as? Int == 3 && summary["verified"] as? Int == 3, "\(summary)")
        for name in ["a", "b", "c"] { #expect(try scratch.files(name) == before) }
        try scratch.plant("tree/a.txt", "eno")
        let changed = try CommandRun(["copy", "tree:\(scratch.path("tree"))", "tree:\(scratch.path("c"))"])
        #expect(changed.output == "1 copied (3 B), 2 equal\n", "\(changed.output)")
        #expect(try scratch.files("c") == scratch.files("tree"))
    }

    @Test("several tasks copy to a file store that does not exist yet, and none fails")
    func newStore() async throws {
        // The walk goes through the root again after each directory.
        for number in 10..<40 { try scratch.plant("s/\(number)\(number % 2 == 0 ? "" : "/a")", "\(number)") }
        for attempt in 0..<TestDepth.limit(4, deep: 12) {
            let arguments = try TransferArguments.parse([
                "tree:\(scratch.path("s"))", "file:\(scratch.path("t\(attempt)"))", "--verify",
            ])
            let log = TransferLog(arguments)
            try await FileTransfer(arguments, log).run()
            #expect(!log.hasFailed, "\(attempt)")
            try #require(try scratch.files("t\(attempt)") == scratch.files("s"))
        }
    }

    @Test("a dry run prints each action with source and destination, and changes nothing", arguments: ["tree", "file"])
    func dryRun(scheme: String) throws {
        for (path, text) in [
            ("s/new", "1"), ("s/same", "2"), ("s/other", "3"), ("t/same", "2"), ("t/other", "4"), ("t/old", "5"),
            ("s/d/new", "6"),
        ] {
            try scratch.plant(path, text)
        }
        let (source, target) = ("tree:\(scratch.path("s"))", "\(scheme):\(scratch.path("t"))")
        let before = try FileManager.default.subpathsOfDirectory(atPath: scratch.url.path).sorted()
        let run = try CommandRun(["copy", source, target, "--dry-run", "--delete", "--verify"])
        #expect(run.status == 0, "\(run.errors)")
        #expect(
            run.output.split(separator: "\n").map(String.init).sorted() == [
                "3 to copy (3 B), 1 equal, 1 to delete, 0 verified", "copy  \(source)/d/new → \(target)/d/new",
                "copy  \(source)/new → \(target)/new", "delete  \(target)/old",
                "equal  \(source)/same → \(target)/same", "replace  \(source)/other → \(target)/other",
            ])
        let rows = try CommandRun(["copy", source, target, "--dry-run", "--delete", "--json"]).rows()
        #expect(Set(rows.compactMap { $0["action"] as? String }) == ["copy", "equal", "replace", "delete"])
        // Where there is no destination yet, there is nothing to delete.
        let new = try CommandRun(["copy", source, "\(scheme):\(scratch.path("n"))", "--dry-run", "--delete"])
        #expect(new.status == 0 && new.output.hasSuffix("4 to copy (4 B), 0 equal, 0 to delete\n"), "\(new.errors)")
        #expect(try FileManager.default.subpathsOfDirectory(atPath: scratch.url.path).sorted() == before)
    }

    @Test("nothing is deleted without --delete, or if it would be more than --max-delete")
    func deletion() throws {
        try scratch.plant("s/a", "1")
        for number in 0..<3 { try scratch.plant("t/old\(number)", "x") }
        let words = ["copy", "tree:\(scratch.path("s"))", "file:\(scratch.path("t"))"]
        #expect(try CommandRun(words).status == 0)
        #expect(try scratch.files("t").count == 4)
        let refused = try CommandRun(words + ["--delete", "--max-delete", "2"])
        #expect(refused.status == 2)
        #expect(refused.errors.contains("nothing was deleted: 3 files"), "\(refused.errors)")
        #expect(try scratch.files("t").count == 4)
        #expect(try CommandRun(words + ["--delete", "--max-delete", "3"]).status == 0)
        #expect(try scratch.files("t") == ["a": "1"])
        #expect(try CommandRun(words + ["--delete", "--max-delete", "0"]).status == 0)
        try scratch.plant("t/old", "x")
        #expect(try CommandRun(words + ["--delete", "--max-delete", "0"]).status == 2)
        #expect(try scratch.files("t") == ["a": "1", "old": "x"])
    }

    @Test(
        "what the source has as a link is not deleted, and a name that is no key is not one of a file store",
        arguments: ["tree", "file"])
    func otherNames(scheme: String) throws {
        let isTree = scheme == "tree"
        for path in ["s/a", "t/link", "t/old", "t/back\\slash"] + (isTree ? ["s/own\\slash"] : []) {
            try scratch.plant(path, path)
        }
        try FileManager.default.createSymbolicLink(atPath: scratch.path("s/link"), withDestinationPath: "nowhere")
        let run = try CommandRun([
            "copy", "tree:\(scratch.path("s"))", "\(scheme):\(scratch.path("t"))", "--delete", "--verify",
        ])
        #expect(run.status == 2 && run.errors == "Error: 1 item skipped: see the list\n", "\(run.errors)")
        let (copied, deleted) = isTree ? ("2 copied (14 B)", 2) : ("1 copied (3 B)", 1)
        let verified = isTree ? 2 : 1
        #expect(
            run.output.hasSuffix("\n\(copied), 0 equal, \(deleted) deleted, 1 skipped, \(verified) verified\n"),
            "\(run.output)")
        let other = isTree ? ["own\\slash": "s/own\\slash"] : ["back\\slash": "t/back\\slash"]
        #expect(try scratch.files("t") == other.merging(["a": "s/a", "link": "t/link"]) { $1 })
    }

    @Test(
        "a file that another process deletes before the copy does is listed, and is no failure",
        arguments: ["tree", "file"])
    func deletedMeanwhile(scheme: String) throws {
        try scratch.plant("s/a", "1")
        // The lines about them fill the pipe, so that the command waits for the reader before it deletes the last one.
        let names = (1000..<1300).map { String(repeating: "f", count: 240) + "\($0)" }
        for name in names { try scratch.plant("t/\(name)") }
        let (source, target) = ("tree:\(scratch.path("s"))", "\(scheme):\(scratch.path("t"))")
        let output = Pipe()
        let copy = try ChildProcess(
            CommandRun.executable(), ["copy", source, target, "--delete", "--max-delete", "300"],
            output: .pipe(output), errors: .null)
        let deadline = ContinuousClock.now + .seconds(60)
        while FileManager.default.fileExists(atPath: scratch.path("t/\(names[0])")), copy.isRunning, .now < deadline {
            usleep(1000)
        }
        try FileManager.default.removeItem(atPath: scratch.path("t/\(names[299])"))
        let lines = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        #expect(copy.wait() == .exit(0))
        #expect(
            lines.split(separator: "\n").suffix(2).map(String.init) == [
                "removed  \(source)/\(names[299]) → \(target)/\(names[299])",
                "1 copied (1 B), 0 equal, 299 deleted",
            ])
        #expect(try scratch.files("t") == ["a": "1"])
    }

    #if os(Linux)
    @Test("a file under another spelling is deleted, unless it is the copy just made")
    func spellings() throws {
        for path in ["s/a", "s/b", "t/a", "t/b", "t/A"] { try scratch.plant(path, "text") }
        try FileManager.default.linkItem(atPath: scratch.path("t/b"), toPath: scratch.path("t/B"))
        let target = "tree:\(scratch.path("t"))"
        let run = try CommandRun(["copy", "tree:\(scratch.path("s"))", target, "--delete"])
        #expect(run.output == "delete  \(target)/A\n0 copied (0 B), 2 equal, 1 deleted\n", "\(run.errors)")
        #expect(try scratch.files("t").keys.sorted() == ["B", "a", "b"])
    }
    #endif

    @Test("an empty or missing source is an error, and deletes and creates nothing", arguments: ["kv", "tree", "json"])
    func emptySource(scheme: String) throws {
        try scratch.plant("t/keep", "x")
        try scratch.fillStore("k")
        let target = scheme == "tree" ? "file:\(scratch.path("t"))" : "kv:\(scratch.path("k"))"
        let missing = try CommandRun(["copy", "\(scheme):\(scratch.path("none"))", target, "--delete"])
        #expect(missing.status == 4, "\(missing.errors)")
        switch scheme {
        case "kv": try FileKVStore(at: scratch.url.appendingPathComponent("empty")).close()
        case "tree":
            try scratch.plant("empty/.keep", "");
            try FileManager.default.removeItem(atPath: scratch.path("empty/.keep"))
        default: try scratch.plant("empty", "")
        }
        let empty = try CommandRun(["copy", "\(scheme):\(scratch.path("empty"))", target, "--delete"])
        #expect(empty.status == 1)
        #expect(empty.errors.contains("the source is empty"), "\(empty.errors)")
        #expect(missing.output.isEmpty && empty.output.isEmpty, "\(missing.output) \(empty.output)")
        #expect(try scratch.files("t") == ["keep": "x"])
        #expect(try scratch.values("k").count == 5)
        let new = "\(scheme == "tree" ? "file" : "kv"):\(scratch.path("n"))"
        let created = try CommandRun(["copy", "\(scheme):\(scratch.path("empty"))", new])
        #expect(created.status == 1)
        #expect(!FileManager.default.fileExists(atPath: scratch.path("n")))
        guard scheme == "json" else { return }
        for input in ["", "\n \n"] {
            let run = try CommandRun(["copy", "json:-", new], input: input)
            #expect(run.status == 1 && run.errors.contains("the source is empty"), "\(run.output) \(run.errors)")
        }
    }

    @Test("items that cannot be copied are listed, the others are copied, and the status is that of partial success")
    func partial() throws {
        try scratch.plant("s/a", "1")
        try scratch.plant("s/back\\slash", "2")
        try FileManager.default.createSymbolicLink(atPath: scratch.path("s/link"), withDestinationPath: "a")
        let run = try CommandRun(["copy", "tree:\(scratch.path("s"))", "file:\(scratch.path("t"))"])
        #expect(run.status == 2, "\(run.errors)")
        #expect(run.errorLines == ["Error: 1 item failed, 1 did not"])
        #expect(run.output.contains("fail  tree:\(scratch.path("s"))/back\\slash"), "\(run.output)")
        #expect(run.output.contains("skip  ") && run.output.contains("(symbolic link)"), "\(run.output)")
        #expect(try scratch.files("t") == ["a": "1"])
        let lines = "{\"key\":\"a\",\"value\":1}\n{\"key\":2}\nnot json\n\n{\"key\":\"b\",\"base64\":\"!\"}\n"
        let imported = try CommandRun(["copy", "json:-", "kv:\(scratch.path("k"))"], input: lines)
        #expect(imported.status == 2, "\(imported.errors)")
        #expect(imported.output.split(separator: "\n").count { $0.hasPrefix("fail") } == 3, "\(imported.output)")
        #expect(try CommandRun(["kv", "get", scratch.path("k"), "a"]).output == "1\n")
    }

    @Test(
        "what makes no sense is wrong usage",
        arguments: [
            ["copy", "kv:a", "tree:b"], ["copy", "a", "kv:b"], ["copy", "kv:", "kv:b"], ["copy", "ftp:a", "kv:b"],
            ["copy", "kv:a", "json:b", "--delete"],
            ["copy", "json:-", "kv:b", "--verify"], ["copy", "kv:a", "kv:b", "--max-delete", "-1"],
            ["copy", "kv:a", "json:-", "--verify"], ["copy", "json:a", "json:b", "--verify"],
            ["copy", "tree:a", "s3:bucket"], ["watch", "tree:a"],
        ])
    func usage(words: [String]) throws {
        let run = try CommandRun(words, prefix: ["/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", scratch.url.path])
        #expect(run.status == 64, "\(run.errors)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).isEmpty)
    }

    @Test(
        "a copy of a directory to itself, into itself or to one above it is refused",
        arguments: [("s", "s"), ("s", "s/t"), ("s/d", "s")])
    func ownSource(source: String, target: String) throws {
        for path in ["s/a", "s/d/b"] { try scratch.plant(path, path) }
        let before = try scratch.files("s")
        let run = try CommandRun(["copy", "tree:\(scratch.path(source))", "tree:\(scratch.path(target))", "--delete"])
        #expect(run.status == 64 && run.output.isEmpty, "\(run.output) \(run.errors)")
        #expect(try scratch.files("s") == before)
    }

    @Test("a plain file is no store and no directory", arguments: ["kv", "file", "tree"])
    func plainSource(scheme: String) throws {
        try scratch.plant("plain", "text")
        let run = try CommandRun(["copy", "\(scheme):\(scratch.path("plain"))", "\(scheme):\(scratch.path("t"))"])
        #expect(run.status == 4 && run.errors.contains("no store here"), "\(run.errors)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path) == ["plain"])
    }

    @Test(
        "what has the name of a directory or file in the destination fails, and the rest is copied",
        arguments: ["tree", "file"])
    func taken(scheme: String) throws {
        for path in ["s/a/1", "s/b/2", "s/c", "s/#tmp-dir/3", "outside/kept"] { try scratch.plant(path, path) }
        let target = scratch.url.appendingPathComponent("t")
        try FileManager.default.createDirectory(
            at: target.appendingPathComponent("c"), withIntermediateDirectories: true)
        try FileManager.default.createSymbolicLink(
            at: target.appendingPathComponent("a"), withDestinationURL: scratch.url.appendingPathComponent("outside"))
        for options in [["--dry-run"], []] {
            let words = ["copy", "tree:\(scratch.path("s"))", "\(scheme):\(target.path)", "--json"]
            let run = try CommandRun(words + options)
            #expect(run.status == 2, "\(run.errors)")
            let failed = try run.rows().filter { $0["action"] as? String == "fail" }
            // A file store has no names that begin like those of its own files.
            let expected = (scheme == "file" ? ["#tmp-dir/3"] : []) + ["a/1", "c"]
            #expect(failed.compactMap { $0["key"] as? String }.sorted() == expected, "\(options)")
            let reason = failed.first { $0["key"] as? String == "c" }?["reason"] as? String
            #expect(reason == "the destination has a directory there", "\(options)")
        }
        #expect(try scratch.files("outside") == ["kept": "outside/kept"])
        #expect(try String(contentsOfFile: scratch.path("t/b/2"), encoding: .utf8) == "s/b/2")
        if scheme == "tree" {
            #expect(try String(contentsOfFile: scratch.path("t/#tmp-dir/3"), encoding: .utf8) == "s/#tmp-dir/3")
        }
    }

    @Test("files and new directories of a tree have the permissions of the source's, without special bits")
    func permissions() throws {
        try scratch.plant("s/open/closed/file", "1")
        let modes: [mode_t] = [0o600, 0o440, 0o644, 0o755, 0o4755]
        for bits in modes {
            try scratch.plant("s/\(bits)", "1")
            try #require(chmod(scratch.path("s/\(bits)"), bits) == 0)
        }
        for (path, mode) in [("s/open", 0o755), ("s/open/closed", 0o500)] {
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: scratch.path(path))
        }
        defer {
            // So that it can be removed.
            do {
                try FileManager.default.setAttributes(
                    [.posixPermissions: 0o700], ofItemAtPath: scratch.path("s/open/closed"))
            } catch {}
        }
        let run = try CommandRun(
            ["copy", "tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))"],
            prefix: ["/bin/sh", "-c", "umask 022; exec \"$0\" \"$@\""])
        #expect(run.status == 0, "\(run.errors)")
        func mode(_ path: String) throws -> Int? {
            try FileManager.default.attributesOfItem(atPath: scratch.path(path))[.posixPermissions] as? Int
        }
        #expect(try mode("t/open") == 0o755)
        #expect(try mode("t/open/closed") == 0o700)
        for bits in modes { #expect(try mode("t/\(bits)") == Int(bits & 0o777), "\(bits)") }
    }

    @Test("what a killed copy has left is deleted with --delete, but not while another copy writes it")
    func abandoned() throws {
        try scratch.plant("s/a", "1")
        try scratch.plant("t/#tmp-0123456789abcdef", "part")
        try scratch.plant("t/#tmp-0123456789abcdee", "part")
        let others = ["#tmp-mine", "#tmp-abc", "#tmp-0123456789abcdeg", "#tmp-0123456789abcdef0"]
        for name in others { try scratch.plant("t/\(name)", "kept") }
        let fileSystem = SystemFileSystem()
        let locked = try fileSystem.open(
            POSIXPath(scratch.url.appendingPathComponent("t/#tmp-0123456789abcdee")), .readOnly)
        defer { fileSystem.discard(locked) }
        try fileSystem.lock(locked, .exclusive, waiting: false)
        let run = try CommandRun(["copy", "tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))", "--delete"])
        #expect(run.status == 0, "\(run.errors)")
        #expect(
            try Set(FileManager.default.contentsOfDirectory(atPath: scratch.path("t")))
                == Set(["a", "#tmp-0123456789abcdee"] + others))
    }

    @Test("a directory of the source that has become a link is not followed")
    func linkedSource() throws {
        try scratch.plant("outside/secret", "1")
        try scratch.plant("s/a", "1")
        try FileManager.default.createSymbolicLink(
            atPath: scratch.path("s/link"), withDestinationPath: scratch.path("outside"))
        let source = try ConfinedDirectory(POSIXPath(scratch.url.appendingPathComponent("s")))
        let failure = #expect(throws: SourceFailure.self) { try SourceFile.openDirectory("link", in: source) }
        #expect(failure?.error.errno == .tooManySymbolicLinkLevels)
    }

    @Test("a place that is found below the other one is refused")
    func placeBelow() throws {
        try scratch.plant("s/a/b", "1")
        let other = Ancestry.identity(of: try POSIXPath(scratch.url.appendingPathComponent("s/a")))
        let source = try ConfinedDirectory(POSIXPath(scratch.url.appendingPathComponent("s")))
        var walk = StoreWalk(source, except: other)
        #expect(throws: StoreWalk.ContainsOther.self) { while try walk.nextFile(ofStore: false) != nil {} }
    }

    @Test("a copy that control-C ends leaves no partial file, and the next one completes it")
    func interrupted() throws {
        let content = String(repeating: "0123456789abcdef", count: 1 << 12)
        for number in 0..<400 { try scratch.plant("s/d\(number % 7)/\(number)", content + "\(number)") }
        let words = ["copy", "tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))"]
        // On a busy machine the copy may be complete before the signal arrives: then once more.
        var (end, message, output) = (ChildProcess.End.exit(0), "", "")
        for _ in 0..<50 where end == .exit(0) {
            if FileManager.default.fileExists(atPath: scratch.path("t")) {
                try FileManager.default.removeItem(atPath: scratch.path("t"))
            }
            (end, message, output) = try interruptedCopy(words, after: "t/d0/0")
        }
        #expect(end == .exit(130))
        #expect(message == "Error: interrupted\n" && output.isEmpty, "\(message) \(output)")
        let done = try scratch.files("t")
        let all = try scratch.files("s")
        #expect(done.count < all.count && !done.isEmpty, "\(done.count)")
        for (path, text) in done { #expect(text == all[path], "\(path)") }
        let rest = try CommandRun(words + ["--json", "--verify"])
        #expect(rest.status == 0, "\(rest.errors)")
        let summary = try rest.summary()
        #expect(summary["equal"] as? Int == done.count)
        #expect(summary["copied"] as? Int == all.count - done.count)
        #expect(try scratch.files("t") == all)
    }

    @Test("control-C ends a copy that waits for standard input")
    func interruptedInput() throws {
        let (input, output, errors) = (Pipe(), Pipe(), Pipe())
        let process = try ChildProcess(
            CommandRun.executable(), ["copy", "json:-", "kv:\(scratch.path("kv"))"], input: .pipe(input),
            output: .pipe(output), errors: .pipe(errors))
        try input.fileHandleForWriting.write(contentsOf: Data("no line\n".utf8))
        // After the line about it, the command has only the next line to wait for.
        let line = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        #expect(line.hasPrefix("fail  json:-#line 1 "), "\(line)")
        process.send(SIGINT)
        #expect(process.wait(killingAfter: .seconds(60)) == .exit(130))
        let message = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        #expect(message == "Error: interrupted\n")
    }

    #if os(Linux)
    @Test(
        "control-C ends a copy between two items that are skipped, refused or deleted",
        arguments: ["skipped", "refused", "deleted"])
    func interruptedItems(kind: String) throws {
        try FileManager.default.createDirectory(atPath: scratch.path("s"), withIntermediateDirectories: false)
        if kind == "deleted" { try scratch.plant("s/a") }
        // The lines about them fill the pipe, so that the command waits for the reader before the last ones.
        let names = (1000..<1300).map { String(repeating: "f", count: 240) + "\($0)" }
        for name in names {
            switch kind {
            case "skipped": try #require(mkfifo(scratch.path("s/\(name)"), 0o600) == 0)
            case "refused": try scratch.plant("s/\\\(name)")
            default: try scratch.plant("t/\(name)")
            }
        }
        let target = "\(kind == "refused" ? "file" : "tree"):\(scratch.path("t"))"
        let (output, errors) = (Pipe(), try ChildProcess.unnamedFile())
        let copy = try ChildProcess(
            CommandRun.executable(),
            ["copy", "tree:\(scratch.path("s"))", target, "--delete", "--max-delete", "300"],
            output: .pipe(output), errors: .file(errors))
        #expect(try output.fileHandleForReading.read(upToCount: 1)?.count == 1)
        copy.send(SIGINT)
        // Until the signal, number 2, has arrived (proc(5)), or the command has ended.
        let (status, pending) = ("/proc/\(copy.id)/status", "ShdPnd:\t0000000000000002")
        while (try? String(contentsOfFile: status, encoding: .utf8))?.contains(pending) == true { usleep(1000) }
        _ = try output.fileHandleForReading.readToEnd()
        #expect(copy.wait() == .exit(130))
        #expect(String(decoding: try ChildProcess.content(of: errors), as: UTF8.self) == "Error: interrupted\n")
        if kind == "deleted" { #expect(FileManager.default.fileExists(atPath: scratch.path("t/\(names[299])"))) }
    }
    #endif

    /// Starts the command, and interrupts it when a file exists. Returns its end and what it printed.
    private func interruptedCopy(
        _ words: [String], after path: String
    ) throws -> (end: ChildProcess.End, message: String, output: String) {
        let (output, errors) = (try ChildProcess.unnamedFile(), Pipe())
        let process = try ChildProcess(CommandRun.executable(), words, output: .file(output), errors: .pipe(errors))
        while !FileManager.default.fileExists(atPath: scratch.path(path)), process.isRunning { usleep(200) }
        process.send(SIGINT)
        let end = process.wait(killingAfter: .seconds(60))
        let message = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        return (end, message, String(decoding: try ChildProcess.content(of: output), as: UTF8.self))
    }
}
