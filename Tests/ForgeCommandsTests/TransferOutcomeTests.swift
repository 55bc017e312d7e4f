import ArgumentParser
import ChildProcesses
import ForgeStorage
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

@testable import ForgeCommands

@Suite("What a copy deletes, and how it ends")
struct TransferOutcomeTests {
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
        // The files that were copied before the failure are counted.
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

    @Test("nothing is deleted if a directory or file of the source is moved meanwhile", arguments: ["tree", "file"])
    func movedMeanwhile(scheme: String) async throws {
        for path in ["s/b/own", "s/z/1", "s/z/2", "t/z/1", "t/z/2", "t/old"] { try scratch.plant(path, "text") }
        let places = ["\(scheme):\(scratch.path("s"))", "\(scheme):\(scratch.path("t"))", "--delete"]
        /// Copies while entries are moved, each when `z` is opened and the one before it was copied to its new place.
        func copy(moving moves: [(from: String, to: String)]) async throws {
            let steps = moves.map { move in
                (
                    from: POSIXPath(scratch.path("s/\(move.from)")), to: POSIXPath(scratch.path("s/\(move.to)")),
                    copy: POSIXPath(scratch.path("t/\(move.to)"))
                )
            }
            let moving = InterceptedFileSystem(SystemFileSystem()) { (call) throws(FileSystemError) in
                guard call.operation == .open, call.path == "z" else { return }
                for step in steps {
                    if try SystemFileSystem().exists(step.from) {
                        try SystemFileSystem().rename(step.from, to: step.to)
                        return
                    }
                    guard try SystemFileSystem().exists(step.copy) else { return }
                }
            }
            let arguments = try TransferArguments.parse(places)
            let source = try ConfinedDirectory(POSIXPath(scratch.path("s")), on: moving)
            try await FileTransfer(arguments, TransferLog(arguments), from: source).run()
        }
        func expect(_ paths: String...) throws {
            #expect(try scratch.files("t") == Dictionary(uniqueKeysWithValues: paths.map { ($0, "text") }))
        }
        let moved = await #expect(throws: CommandFailure.self) { try await copy(moving: [("z", "a")]) }
        #expect(moved?.description == "nothing was deleted: 1 item failed" && moved?.status == .partial)
        try expect("b/own", "old", "z/1", "z/2")
        // Files that a walk has seen neither where they were nor where they are: the first is copied afterwards.
        try FileManager.default.moveItem(atPath: scratch.path("s/a"), toPath: scratch.path("s/z"))
        let unseen = await #expect(throws: CommandFailure.self) {
            try await copy(moving: [("z/1", "b/1"), ("z/2", "b/2")])
        }
        let reason = "the source has changed during the copy, and b/2 was not copied; copy again"
        #expect(unseen?.description == "nothing was deleted: \(reason)" && unseen?.status == .partial)
        try expect("b/1", "b/own", "old", "z/1", "z/2")
        try await copy(moving: [("b/2", "b/0")])
        try expect("b/0", "b/1", "b/own")
        // A directory that the source does not have any more is no failure.
        try scratch.plant("t/old")
        try await copy(moving: [("z", "../gone")])
        try expect("b/0", "b/1", "b/own")
        let run = try CommandRun(["copy"] + places)
        #expect(run.status == 0 && run.output == "0 copied (0 B), 3 equal, 0 deleted\n", "\(run.output)")
        // Without anything to delete, it is one that was created since.
        for path in ["s/z/1", "t/z/1", "new"] { try scratch.plant(path, "text") }
        try await copy(moving: [("../new", "b/2")])
        try expect("b/0", "b/1", "b/own", "z/1")
        // One that cannot be copied.
        for path in ["t/a", "t/old", "dir/new"] { try scratch.plant(path, "text") }
        let failed = await #expect(throws: CommandFailure.self) { try await copy(moving: [("../dir", "a")]) }
        #expect(failed?.description == "nothing was deleted: 1 item failed")
        try expect("a", "b/0", "b/1", "b/2", "b/own", "old", "z/1")
    }

    #if os(Linux)
    @Test("files that appeared during a copy are flushed before anything is deleted", arguments: ["tree", "file"])
    func flushOfAppeared(scheme: String) async throws {
        for path in ["s/b/own", "s/b/2", "s/z/1", "t/old"] { try scratch.plant(path, "text") }
        let moving = InterceptedFileSystem(SystemFileSystem()) { [scratch] (call) throws(FileSystemError) in
            guard call.operation == .open, call.path == "z" else { return }
            let present = try ["s/b/2", "t/b/0"].map { name throws(FileSystemError) in
                try SystemFileSystem().exists(POSIXPath(scratch.path(name)))
            }
            if present[1] {
                // It was copied after the walk that has not seen it.
                do { try scratch.preventFlush(of: "t/b") } catch { Issue.record(error) }
            } else if present[0] {
                try SystemFileSystem().rename(
                    POSIXPath(scratch.path("s/b/2")), to: POSIXPath(scratch.path("s/b/0")))
            }
        }
        let arguments = try TransferArguments.parse([
            "\(scheme):\(scratch.path("s"))", "\(scheme):\(scratch.path("t"))", "--delete",
        ])
        let source = try ConfinedDirectory(POSIXPath(scratch.path("s")), on: moving)
        let failure = await #expect(throws: FileSystemError.self) {
            try await FileTransfer(arguments, TransferLog(arguments), from: source).run()
        }
        #expect(failure?.errno == .badFileDescriptor)
        #expect(try scratch.files("t")["old"] == "text")
    }
    #endif

    @Test("a directory that is moved between its copy and the verification is a failure")
    func movedBeforeVerification() async throws {
        for path in ["s/a/1", "s/z/1"] { try scratch.plant(path, "text") }
        let arguments = try TransferArguments.parse([
            "tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))", "--verify",
        ])
        let log = TransferLog(arguments)
        let source = try scratch.walked("s", moving: "s/z", to: "s/b", before: .open, of: "z", after: "t/z/1")
        try await FileTransfer(arguments, log, from: source).run()
        let failure = #expect(throws: CommandFailure.self) { try log.finish() }
        #expect(failure?.description == "1 item failed, 2 did not" && failure?.status == .partial)
        #expect(try scratch.files("t") == ["a/1": "text", "z/1": "text"])
        // Another directory has the name since it was listed.
        try scratch.plant("new/1", "other")
        let listed = try FileGroup(
            directory: "new", names: ["1"],
            identity: DirectoryIdentity(SystemFileSystem().status(POSIXPath(scratch.path("s/b")))))
        let (tree, target) = (try ConfinedDirectory(POSIXPath(scratch.url)), try FileTarget(arguments.destination))
        try target.prepare("new", like: tree)
        let second = TransferLog(arguments)
        var copy = FileGroupCopy(listed, preparedWith: nil, from: tree, to: target, arguments, second)
        let isFound = try await copy.run()
        #expect(!isFound && !FileManager.default.fileExists(atPath: scratch.path("t/new/1")))
    }

    #if os(Linux)
    @Test("a directory is open as long as files of it wait: some file systems give a closed one another inode number")
    func heldDirectory() throws {
        for path in ["s/a/1", "s/z/1"] { try scratch.plant(path) }
        var walk = StoreWalk(try ConfinedDirectory(POSIXPath(scratch.path("s"))))
        let first = try walk.nextFile(ofStore: false)
        var group: FileGroup? = FileGroup(directory: "a", names: ["1"], listed: walk.openDirectory)
        let second = try walk.nextFile(ofStore: false)
        #expect(first?.path == "a/1" && second?.path == "z/1")
        let isHeld = try scratch.opened().contains("s/a")
        #expect(isHeld && group?.listed != nil)
        group = nil
        let isLeft = try scratch.opened().contains("s/a")
        #expect(!isLeft)
    }
    #endif

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

    @Test("a source of links and pipes alone is not taken for an empty one", arguments: ["tree", "file"])
    func onlySkipped(scheme: String) throws {
        try scratch.plant("t/keep", "x")
        try FileManager.default.createDirectory(atPath: scratch.path("s"), withIntermediateDirectories: false)
        try FileManager.default.createSymbolicLink(atPath: scratch.path("s/link"), withDestinationPath: "a")
        let (from, to) = ("\(scheme):\(scratch.path("s"))", "tree:\(scratch.path("t"))")
        let run = try CommandRun(["copy", from, to, "--delete"])
        #expect(run.status == 2 && run.errors == "Error: 1 item skipped: see the list\n", "\(run.errors)")
        let line = "skip  \(from)/link → \(to)/link  (symbolic link)\n"
        #expect(run.output == line + "0 copied (0 B), 0 equal, 0 deleted, 1 skipped\n")
        #expect(try scratch.files("t") == ["keep": "x"])
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
        #expect(run.status == 2, "\(run.errors)")
        for name in others { #expect(run.output.contains("/\(name)  (a file with the name"), "\(run.output)") }
        #expect(!run.output.contains("#tmp-0123456789abcdee "), "\(run.output)")
        #expect(
            try Set(FileManager.default.contentsOfDirectory(atPath: scratch.path("t")))
                == Set(["a", "#tmp-0123456789abcdee"] + others))
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

    @Test("control-C during a wait for standard input leaves no temporary file beside a file of lines")
    func interruptedLines() throws {
        let directory = scratch.path("out")
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
        let (input, errors) = (Pipe(), try ChildProcess.unnamedFile())
        let copy = try ChildProcess(
            CommandRun.executable(), ["copy", "json:-", "json:\(directory)/lines"], input: .pipe(input), output: .null,
            errors: .file(errors))
        // Some batches; after the first one the command has created a temporary file.
        let lines = (0..<200).map { "{\"key\":\"key.\($0)\",\"value\":1}\n" }.joined()
        try input.fileHandleForWriting.write(contentsOf: Data(lines.utf8))
        while try FileManager.default.contentsOfDirectory(atPath: directory).isEmpty, copy.isRunning { usleep(200) }
        copy.send(SIGINT)
        #expect(copy.wait(killingAfter: .seconds(60)) == .exit(130))
        #expect(String(decoding: try ChildProcess.content(of: errors), as: UTF8.self) == "Error: interrupted\n")
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory).isEmpty)
    }

    #if os(Linux)
    @Test("control-C ends a copy that waits for the writer of a FIFO")
    func interruptedOpening() throws {
        try #require(mkfifo(scratch.path("fifo"), 0o600) == 0)
        let errors = try ChildProcess.unnamedFile()
        let copy = try ChildProcess(
            CommandRun.executable(), ["copy", "json:\(scratch.path("fifo"))", "kv:\(scratch.path("kv"))"],
            errors: .file(errors))
        // Until the command catches signal 2 (proc(5)), or has ended; soon after, it has only the writer to wait for.
        while copy.isRunning, let status = try? String(contentsOfFile: "/proc/\(copy.id)/status", encoding: .utf8),
            status.firstMatch(of: /SigCgt:\s*[0-9a-f]*[2367abef]\n/) == nil
        { usleep(1000) }
        usleep(300_000)
        copy.send(SIGINT)
        #expect(copy.wait(killingAfter: .seconds(60)) == .exit(130))
        #expect(String(decoding: try ChildProcess.content(of: errors), as: UTF8.self) == "Error: interrupted\n")
    }

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
