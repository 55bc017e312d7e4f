import ArgumentParser
import ForgeStorage
import Foundation
import SystemPackage
import TestDepth
import Testing

@testable import ForgeCommands

@Suite("A copy of files")
struct FileTransferTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    @Test("a log in a file store without a marker is a file of the store, and is copied", arguments: ["file", "tree"])
    func unmarkedLog(scheme: String) async throws {
        let values = try FileKVStore(at: scratch.url.appendingPathComponent("kv"))
        try values.set(KVKey<Int>("a"), value: 1)
        try values.close()
        let log = try Data(contentsOf: scratch.url.appendingPathComponent("kv/log"))
        let store = DiskFileStore(root: scratch.url.appendingPathComponent("s"))
        for key in ["saved/log", "note"] { try await store.save(log, to: key) }
        for name in try FileManager.default.contentsOfDirectory(atPath: scratch.path("s")) where name.hasPrefix("#") {
            try FileManager.default.removeItem(atPath: scratch.path("s/\(name)"))
        }
        let run = try CommandRun(["copy", "file:\(scratch.path("s"))", "\(scheme):\(scratch.path("d"))"])
        #expect(run.status == 0 && run.output.contains("2 copied"), "\(run.output) \(run.errors)")
        for key in ["saved/log", "note"] {
            #expect(FileManager.default.contents(atPath: scratch.path("d/\(key)")) == log, "\(key)")
        }
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

    @Test("each directory is closed when its files are copied, compared, saved or restored")
    func manyDirectories() throws {
        for number in 0..<100 { try scratch.plant("s/\(number)/file", "\(number)") }
        let (source, target, backup) = (scratch.path("s"), scratch.path("t"), scratch.path("b"))
        for (words, output) in [
            (["copy", "tree:\(source)", "tree:\(target)", "--verify"], "copied (190 B), 0 equal, 100 verified"),
            (["backup", source, backup], "files saved (190 B)"),
            (["restore", backup, scratch.path("r")], "files restored (190 B)"),
        ] {
            let run = try CommandRun(words, prefix: ["/bin/sh", "-c", "ulimit -n 64 && exec \"$0\" \"$@\""])
            #expect(run.status == 0 && run.output == "100 \(output)\n", "\(run.output) \(run.errors)")
        }
        for name in ["t", "r"] { #expect(try scratch.files(name) == scratch.files("s")) }
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
        func copied(_ directory: POSIXPath, _ names: [POSIXPath]) async throws -> (log: TransferLog, isFound: Bool) {
            let log = TransferLog(arguments)
            var copy = FileGroupCopy(
                FileGroup(directory: directory, names: names), preparedWith: nil, from: source, to: target, arguments,
                log)
            return (log, try await copy.run())
        }
        let (log, isFound) = try await copied("", ["a", "gone", "pipe"])
        #expect(isFound && !log.isLeftOut("a") && log.isLeftOut("gone") && log.isLeftOut("pipe"))
        let failure = #expect(throws: CommandFailure.self) { try log.finish() }
        #expect(failure?.description == "1 item skipped: see the list")
        for directory in ["link", "none"] as [POSIXPath] {
            let (log, isFound) = try await copied(directory, ["a", "b"])
            for name in ["a", "b"] as [POSIXPath] { #expect(log.isLeftOut(directory.appending(name).shown)) }
            #expect(!isFound && !log.hasFailed)
        }
        #expect(try scratch.files("t") == ["a": "1"])
    }

    @Test("a file that is removed after it was listed is no finding of a check")
    func removedSince() throws {
        let store = try FileKVStore(at: scratch.url.appendingPathComponent("kv"))
        try store.set(KVKey<Int>("key"), value: 1)
        try store.close()
        let root = try POSIXPath(scratch.url)
        var walk = StoreWalk(try ConfinedDirectory(root))
        var found: StoreWalk.Entry?
        while let event = try walk.next() {
            if case .file(let entry) = event, entry.path == "kv/log" { found = entry }
        }
        let log = try #require(found)
        let checker = StoreChecker(keys: [], progress: ForgeCommands.Progress("files", .none))
        #expect(checker.checkFormat(of: log, in: walk, below: root)?.state == .intact)
        try FileManager.default.removeItem(atPath: scratch.path("kv/log"))
        #expect(checker.checkFormat(of: log, in: walk, below: root) == nil)
    }

    @Test("an error of all files ends the copy, and names the file in the destination")
    func errorOfAll() async throws {
        try scratch.plant("s/d/a", "1")
        let arguments = try TransferArguments.parse(["tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))"])
        let source = try ConfinedDirectory(POSIXPath(arguments.source.url))
        let target = try FileTarget(arguments.destination)
        let failure = await #expect(throws: FileSystemError.self) {
            var copy = FileGroupCopy(
                FileGroup(directory: "d", names: ["a"]), preparedWith: FileSystemError(.createDirectory, .noSpace),
                from: source, to: target, arguments, TransferLog(arguments))
            _ = try await copy.run()
        }
        #expect(failure?.errno == .noSpace && failure?.path == POSIXPath(scratch.path("t/d/a")))
    }

    @Test("a directory has the kinds of its stores in words, and no words without one")
    func kindsInWords() async throws {
        try await scratch.makeStores(in: "t")
        for (name, words) in [("kv", "key-value store"), ("fs", "file store"), ("log", "")] {
            let scope = try StoreScope(at: POSIXPath(scratch.path("t/\(name)")), on: SystemFileSystem())
            #expect(scope.owner.words == words)
        }
    }

    @Test("a file store in the directory of a store that is not known takes no file")
    func unknownDestination() throws {
        try scratch.plant("s/a")
        try scratch.plant("t/#lock")
        let (source, target) = ("tree:\(scratch.path("s"))", "file:\(scratch.path("t"))")
        let run = try CommandRun(["copy", source, target])
        #expect(run.status == 1 && run.errors == "Error: 1 item failed, 0 did not\n", "\(run.errors)")
        let line = "fail  \(source)/a → \(target)/a  (save a: refused: in the directory of another store ("
        #expect(run.output.hasPrefix(line) && run.output.hasSuffix("\n0 copied (0 B), 0 equal, 1 failed\n"))
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path("t")) == ["#lock"])
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

    @Test("a copy that cannot be written is no failure of the source, and leaves nothing")
    func unwritableCopy() throws {
        let fileSystem = SystemFileSystem()
        try scratch.plant("source", Data(repeating: 7, count: 1 << 20))
        try FileManager.default.createDirectory(atPath: scratch.path("t"), withIntermediateDirectories: false)
        let path = try POSIXPath(scratch.url.appendingPathComponent("source"))
        let file = try SourceFile(path, in: .workingDirectory, path: path, on: fileSystem)
        defer { fileSystem.discard(file.descriptor) }
        let directory = try fileSystem.open(POSIXPath(scratch.path("t")), .readOnly, options: [.directory])
        defer { fileSystem.discard(directory) }
        let copy = try PartialFile(of: file, in: directory, on: fileSystem)
        let written = try descriptors("t").filter { $0.rawValue != directory.rawValue }
        try #require(written.count == 1)
        // A descriptor that only reads takes the place of the copy's.
        let other = try FileDescriptor.open(FilePath(scratch.path("source")), .readOnly)
        _ = try other.duplicate(as: written[0])
        try other.close()
        let failure = #expect(throws: FileSystemError.self) {
            try copy.finish(file, as: "final", isExpected: false)
        }
        #expect(failure?.errno == .badFileDescriptor)
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path("t")).isEmpty)
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
        // A file store takes a long file alone, and short ones together.
        try scratch.plant("tree/d/e/b.txt", String(repeating: "own", count: 200_000))
        let long = try CommandRun(["copy", "tree:\(scratch.path("tree"))", "file:\(scratch.path("a"))"])
        #expect(long.status == 0 && long.output.hasPrefix("2 copied ("), "\(long.output) \(long.errors)")
        #expect(try scratch.files("a") == scratch.files("tree"))
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
        for (path, mode) in [("s/open", 0o2777), ("s/open/closed", 0o500)] {
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
        #expect(try mode("t/open") == 0o777)
        #expect(try mode("t/open/closed") == 0o700)
        for bits in modes { #expect(try mode("t/\(bits)") == Int(bits & 0o777), "\(bits)") }
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
}
