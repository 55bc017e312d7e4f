import ArgumentParser
import ChildProcesses
import ForgeStorage
import ForgeStorageTesting
import Foundation
import Synchronization
import TestDepth
import Testing

@testable import ForgeCommands

struct OutputTests {
    // Foundation has a type of the same name.
    private typealias Progress = ForgeCommands.Progress

    @Test("a table is as wide as its widest cells, and no line ends in spaces")
    func table() {
        var table = TextTable([("Name", .left), ("Bytes", .right), ("Path", .left)])
        table.add(["a", "7", "x"])
        table.add(["longer", "12345678", ""])
        table.add(["éé", "1", "y"])
        table.add(["", "", ""])
        #expect(
            table.lines == [
                "Name       Bytes  Path",
                "──────  ────────  ────",
                "a              7  x",
                "longer  12345678",
                "éé             1  y",
                "",
            ])
    }

    @Test(
        "a size is shown in the unit that suits it",
        arguments: [
            (0, "0 B"), (512, "512 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (10_240, "10 KiB"),
            (5 << 20, "5.0 MiB"), (3 << 30, "3.0 GiB"), (2 << 40, "2.0 TiB"), (5000 << 40, "5000 TiB"),
        ])
    func showsSize(bytes: Int, text: String) {
        #expect(readableSize(bytes) == text)
    }

    private func shown(_ style: Progress.Style) throws -> [String] {
        let shown = Mutex<[String]>([])
        let start = ContinuousClock.now
        let progress = Progress("files", style, start: start) { text in shown.withLock { $0.append(text) } }
        #expect(progress.isVisible == (style != .none))
        progress.expect(.init(items: 10, bytes: 4096))
        for milliseconds in stride(from: 10, through: 2000, by: 10) {
            try progress.advance(
                items: 0, bytes: milliseconds <= 1024 ? 20 : 0, now: start + .milliseconds(milliseconds))
        }
        return shown.withLock { $0 }
    }

    @Test("a long table is printed in parts, with the widths of the first one")
    func parts() {
        var table = TextTable([("Name", .left), ("Bytes", .right)])
        table.add(["long name", "1"])
        #expect(table.takeLines() == ["Name       Bytes", "─────────  ─────", "long name      1"])
        table.add(["a", "22"])
        table.add(["a longer name", "333333"])
        #expect(table.takeLines() == ["a             22", "a longer name  333333"])
        #expect(table.takeLines().isEmpty && table.count == 0)
    }

    @Test("progress is shown on a terminal after a second and ten times a second, as JSON four times, and else never")
    func progress() throws {
        let lines = try shown(.line)
        #expect(lines.count == 11, "\(lines)")
        #expect(
            lines.last
                == "\r[#########...........] 49%  0 of 10 files  2.0 KiB, 1020 B/s  0:02 left\u{1B}[K", "\(lines)")
        let objects = try shown(.jsonLines)
        #expect(objects.count == 8, "\(objects)")
        #expect(
            objects.last
                == #"{"bytes":2040,"items":0,"seconds":2,"totalBytes":4096,"totalItems":10,"type":"progress"}"# + "\n")
        #expect(try shown(.none).isEmpty)
        #expect(Progress.Style.current(json: true) == .jsonLines)
        #expect(Progress.Style.current(json: false) == (isatty(STDERR_FILENO) == 1 ? .line : .none))
    }

    @Test("a time in seconds has no more than three digits after the point")
    func seconds() {
        #expect((Duration.milliseconds(1500) + .microseconds(900)).seconds == 1.5)
        for (milliseconds, text) in [(184, "0.184"), (1586, "1.586"), (86_400_999, "86400.999")] {
            #expect("\(Duration.milliseconds(milliseconds).seconds)" == text)
        }
    }

    @Test("the line of progress has a bar, the counts, the rate and the time that is left, whatever the total is")
    func progressLine() {
        let (nothing, ten) = (Progress.Amount(), Progress.Amount(items: 10))
        let half = "[##########..........] 50%"
        let cases: [(done: Progress.Amount, total: Progress.Amount?, time: Duration, line: String)] = [
            (nothing, ten, .seconds(2), "[....................] 0%  0 of 10 files  0/s"),
            (.init(items: 1), ten, .seconds(2), "[##..................] 10%  1 of 10 files  0/s  0:18 left"),
            (.init(items: 5), ten, .seconds(10), "\(half)  5 of 10 files  0/s  0:10 left"),
            (.init(items: 5), ten, .seconds(125), "\(half)  5 of 10 files  0/s  2:05 left"),
            (ten, ten, .seconds(2), "[####################] 100%  10 of 10 files  5/s"),
            (.init(items: 12), ten, .seconds(2), "[####################] 100%  12 of 10 files  6/s"),
            (nothing, nothing, .zero, "[....................] 0%  0 of 0 files  0/s"),
            (
                .init(items: 3, bytes: 1024), Progress.Amount(items: 4, bytes: 4096), .seconds(2),
                "[#####...............] 25%  3 of 4 files  1.0 KiB, 512 B/s  0:06 left"
            ),
            (.init(items: 1, bytes: 10), nil, .zero, "1 files  10 B, 9.8 KiB/s"),
        ]
        for (done, total, time, line) in cases {
            #expect(Progress.line("files", done, of: total, after: time) == line)
        }
    }

    @Test("the line of progress is removed once from the terminal, if it was shown")
    func finishedProgress() throws {
        let shown = Mutex<[String]>([])
        let start = ContinuousClock.now
        let progress = Progress("files", .line, start: start) { text in shown.withLock { $0.append(text) } }
        try progress.advance(now: start + .milliseconds(999))
        progress.finish()
        #expect(shown.withLock { $0 } == [])
        try progress.advance(now: start + .seconds(1))
        #expect(shown.withLock { $0 } == ["\r2 files  2/s\u{1B}[K"])
        progress.finish()
        progress.finish()
        #expect(shown.withLock { $0 } == ["\r2 files  2/s\u{1B}[K", "\r\u{1B}[K"])
    }

    @Test(
        "progress as JSON is shown on standard output, or on standard error while standard output takes lines of data",
        arguments: [true, false])
    func progressBesideLines(isOutputTaken: Bool) throws {
        let scratch = try Scratch()
        let (input, output, errors) = (Pipe(), try ChildProcess.unnamedFile(), try ChildProcess.unnamedFile())
        let destination = isOutputTaken ? "-" : scratch.path("lines")
        let copy = try ChildProcess(
            CommandRun.executable(), ["copy", "json:-", "json:\(destination)", "--json"], input: .pipe(input),
            output: .file(output), errors: .file(errors))
        let deadline = ContinuousClock.now + .seconds(60)
        let progress = isOutputTaken ? errors : output
        var count = 0
        // Progress is shown with an item, some time after the start. Items are recorded by batches.
        repeat {
            let keys = count..<count + 64
            let lines = keys.map { "{\"key\":\"\($0)\",\"value\":1}\n" }.joined()
            try input.fileHandleForWriting.write(contentsOf: Data(lines.utf8))
            count = keys.upperBound
            usleep(10_000)
        } while try progress.seekToEnd() == 0 && copy.isRunning && .now < deadline
        try input.fileHandleForWriting.close()
        #expect(copy.wait() == .exit(0))
        let others = try isOutputTaken ? ChildProcess.content(of: output) : Data(contentsOf: URL(filePath: destination))
        let lines = String(decoding: others, as: UTF8.self).split(separator: "\n")
        #expect(lines.count == count && lines.allSatisfy { $0.hasPrefix("{\"key\":") })
        if !isOutputTaken { #expect(try ChildProcess.content(of: errors).isEmpty) }
        let shown = String(decoding: try ChildProcess.content(of: progress), as: UTF8.self).split(separator: "\n")
        #expect(shown.first?.contains("\"type\":\"progress\"") == true, "\(shown)")
        let last = Data(try #require(shown.last).utf8)
        let summary = try #require(JSONSerialization.jsonObject(with: last) as? [String: Any])
        #expect(summary["type"] as? String == "summary" && summary["copied"] as? Int == count, "\(summary)")
        // The first progress is shown after a quarter of a second.
        #expect((summary["seconds"] as? Double ?? 0) >= 0.25, "\(summary)")
    }

    @Test(
        "progress as JSON has the total of a copy of files or keys, and of a restore",
        arguments: ["files", "keys", "restore"])
    func progressTotal(kind: String) throws {
        let scratch = try Scratch()
        // The lines about them fill the pipe, so that the command waits for the reader before the last ones.
        let names = (1000..<1300).map { String(repeating: "f", count: 240) + "\($0)" }
        for name in ["a", "z"] { try scratch.plant("s/\(name)", name + name) }
        let words: [String]
        switch kind {
        case "files":
            for name in names { try #require(mkfifo(scratch.path("s/\(name)"), 0o600) == 0) }
            words = ["copy", "tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))"]
        case "keys":
            let store = try FileKVStore(at: scratch.url.appendingPathComponent("kv"))
            for name in names { try store.set(KVKey<Int>(name), value: 1) }
            try store.close()
            words = ["copy", "kv:\(scratch.path("kv"))", "kv:\(scratch.path("t"))", "--dry-run"]
        default:
            #expect(try CommandRun(["backup", scratch.path("s"), scratch.path("b")]).status == 0)
            for name in names { try scratch.plant("b/content/\(name)") }
            words = ["restore", "--dry-run", scratch.path("b"), scratch.path("r")]
        }
        let output = Pipe()
        let process = try ChildProcess(
            CommandRun.executable(), words + ["--json"], output: .pipe(output), errors: .null)
        var text = try output.fileHandleForReading.read(upToCount: 1) ?? Data()
        // Progress is shown a quarter of a second after the start.
        usleep(300_000)
        text += try output.fileHandleForReading.readToEnd() ?? Data()
        #expect(process.wait() == .exit(kind == "keys" ? 0 : 2))
        let lines = try text.split(separator: UInt8(ascii: "\n")).map { line in
            try JSONSerialization.jsonObject(with: Data(line)) as? [String: Any]
        }
        let progress = try #require(lines.compactMap { $0 }.first { $0["type"] as? String == "progress" })
        let total: [Int?] = kind == "keys" ? [300, 0] : [2, 4]
        #expect(["totalItems", "totalBytes"].map { progress[$0] as? Int } == total, "\(progress)")
    }

    @Test("a list of many keys has each once, as lines of JSON and as a table with the widths of its first part")
    func longList() throws {
        let scratch = try Scratch()
        // The second key is wider than the first, and the last one wider than all of the first part.
        let names = ["10000", "10000-wide"] + (10_001..<18_200).map(String.init) + ["9-wider-still"]
        let store = try FileKVStore(at: scratch.url.appendingPathComponent("kv"))
        for start in stride(from: 0, to: names.count, by: 1000) {
            var batch = KVBatch()
            for name in names[start..<min(start + 1000, names.count)] { try batch.set(KVKey<Int>(name), value: 1) }
            try store.commit(batch)
        }
        try store.close()
        let lines = names.map { #"{"key":"\#($0)","bytes":3,"value":1}"# + "\n" }.joined()
        let isListed = try CommandRun(["kv", "list", scratch.path("kv"), "--json"]).output == lines
        #expect(isListed)
        let head = ["Key         Bytes  Value", "──────────  ─────  ─────"]
        let rows = names.map { $0 + String(repeating: " ", count: max(0, 10 - $0.count)) + "      3  1" }
        let table = (head + rows).map { $0 + "\n" }.joined()
        let isTable = try CommandRun(["kv", "list", scratch.path("kv")]).output == table
        #expect(isTable)
    }

    @Test("a number of things is counted in words")
    func counts() {
        #expect(counted(1, "key") == "1 key")
        #expect(counted(0, "key") == "0 keys")
    }

    @Test(
        "a directory that is not found when its files are copied is a failure if it was moved, and not if it is gone",
        arguments: ["s/0", "gone"])
    func missingDirectory(place: String) async throws {
        let scratch = try Scratch()
        for path in ["s/a/x", "s/z/1"] { try scratch.plant(path, "text") }
        let arguments = try TransferArguments.parse(["tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))"])
        let log = TransferLog(arguments)
        let source = try scratch.walked("s", moving: "s/z", to: place, before: .status, of: "1")
        try await FileTransfer(arguments, log, from: source).run()
        #expect(log.summaryText == "1 copied (4 B), 0 equal" + (place == "gone" ? "" : ", 1 failed"))
        #expect(try scratch.files("t") == ["a/x": "text"])
    }

    #if os(Linux)
    @Test("files that are not found are failures if another directory has taken the place of the source")
    func replacedSource() async throws {
        let scratch = try Scratch()
        for path in ["s/a/x", "s/z/1", "n/new"] { try scratch.plant(path, "text") }
        let arguments = try TransferArguments.parse(["tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))"])
        let log = TransferLog(arguments)
        let (place, old) = (POSIXPath(scratch.path("s")), POSIXPath(scratch.path("old")))
        let new = POSIXPath(scratch.path("n"))
        // Before the first file is copied: the walk is one directory ahead.
        let replacing = InterceptedFileSystem(SystemFileSystem()) { (call) throws(FileSystemError) in
            guard call.operation == .status, call.path == "1", try SystemFileSystem().exists(new) else { return }
            try SystemFileSystem().rename(place, to: old)
            try SystemFileSystem().rename(new, to: place)
        }
        try await FileTransfer(arguments, log, from: ConfinedDirectory(place, on: replacing)).run()
        #expect(log.summaryText == "0 copied (0 B), 0 equal, 2 failed")
        #expect(try scratch.files("t").isEmpty)
    }
    #endif

    @Test("a file that is created between the copy and its verification is counted and listed, and is no difference")
    func appearedSince() async throws {
        let scratch = try Scratch()
        for path in ["s/z/1", "new"] { try scratch.plant(path, "text") }
        let arguments = try TransferArguments.parse([
            "tree:\(scratch.path("s"))", "tree:\(scratch.path("t"))", "--verify",
        ])
        let log = TransferLog(arguments)
        let source = try scratch.walked("s", moving: "new", to: "s/z/new", before: .open, of: "z", after: "t/z/1")
        try await FileTransfer(arguments, log, from: source).run()
        try log.finish()
        #expect(log.summaryText == "1 copied (4 B), 0 equal, 1 verified, 1 appeared since")
        #expect(TransferLog.Action.appeared.isListed && !TransferLog.Action.verify.isListed)
        #expect(try scratch.files("t") == ["z/1": "text"])
    }
}

@Suite("Standard output that cannot be written")
struct OutputFailureTests {
    @Test(
        "a verb whose output is lost fails with one line on standard error; a verb without output succeeds",
        arguments: TestDepth.pairs(Verb.all, [CommandRun.Destination.full, .closed, .brokenPipe]))
    func lostOutput(verb: Verb, destination: CommandRun.Destination) async throws {
        guard destination != .full || FileManager.default.fileExists(atPath: "/dev/full") else { return }
        let fixture = try await StoreFixture()
        try verb.prepare(fixture.scratch.url.path)
        let run = try CommandRun(
            verb.words(in: fixture.scratch.url.path), input: Data(verb.input.utf8), to: destination)
        #expect(!run.endedBySignal)
        #expect(run.status == (verb.prints ? 1 : 0), "\(run.errors)")
        #expect(run.errorLines.count == (verb.prints ? 1 : 0), "\(run.errors)")
        guard verb.prints else { return }
        let error =
            switch destination {
            case .file: ""
            case .full: "ENOSPC"
            case .closed: "EBADF"
            case .brokenPipe: "EPIPE"
            }
        #expect(run.errors.contains(error), "\(run.errors)")
        #expect(run.output.isEmpty)
    }

    @Test("a file stored while standard output is closed contains only its own content")
    func closedDescriptorIsNotReused() async throws {
        let fixture = try await StoreFixture()
        let before = try Data(contentsOf: fixture.scratch.url.appendingPathComponent("kv/log"))
        _ = try CommandRun(["kv", "list", fixture.scratch.path("kv")], to: .closed)
        #expect(try Data(contentsOf: fixture.scratch.url.appendingPathComponent("kv/log")) == before)
    }

    @Test("a verb that writes to a store of another process fails, any other one succeeds", arguments: Verb.all)
    func storeInUse(verb: Verb) async throws {
        let fixture = try await StoreFixture()
        try verb.prepare(fixture.scratch.url.path)
        let store = try FileKVStore(at: fixture.scratch.url.appendingPathComponent("kv"))
        let run = try CommandRun(verb.words(in: fixture.scratch.url.path), input: Data(verb.input.utf8))
        #expect(run.status == (verb.needsKeyValueStore ? 5 : 0), "\(run.errors)")
        #expect(run.errorLines.count == (verb.needsKeyValueStore ? 1 : 0), "\(run.errors)")
        withExtendedLifetime(store) {}
    }

    @Test("a missing store is one line on standard error, and nothing is created", arguments: Verb.all)
    func missingStore(verb: Verb) throws {
        guard [.reads, .changes, .copies].contains(verb.access) else { return }
        let scratch = try Scratch()
        let run = try CommandRun(verb.words(in: scratch.path("none")), input: Data(verb.input.utf8))
        #expect(run.status == 4)
        #expect(run.errorLines.count == 1, "\(run.errors)")
        #expect(run.errors.hasPrefix("Error: no store here: there is no "), "\(run.errors)")
        #expect(run.output.isEmpty)
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).isEmpty)
    }
}

@Suite("Control characters in output")
struct ControlCharacterTests {
    private static let hostile = "a\u{1B}[31m\u{07}\u{9B}1m\u{7F}\u{202E}b\nc"

    @Test("each control character is shown by its bytes")
    func escapes() {
        #expect("a\u{1B}[1m\tb".escapingControls() == "a\\x1b[1m\\x09b")
        #expect("\u{9B}\u{202E}".escapingControls() == "\\xc2\\x9b\\xe2\\x80\\xae")
        #expect("a\nb\u{0}".escapingControls(except: ["\n"]) == "a\nb\\x00")
        #expect("é👩‍👩‍👧 ✓".escapingControls() == "é👩‍👩‍👧 ✓")
    }

    @Test("errors of all stores show a name in the same way, without a character that hides or reorders text")
    func namesInErrors() throws {
        let names: [(name: String, shown: String)] = [
            ("x\u{202E}y", "x\\xe2\\x80\\xaey"), ("\u{200B}#", "\\xe2\\x80\\x8b#"), ("\u{FEFF}b", "\\xef\\xbb\\xbfb"),
            ("a\nb", "a\\x0ab"), ("a\\x0ab", "a\\\\x0ab"), ("C:\\dir", "C:\\\\dir"), ("é", "é"),
            ("\u{2028}", "\\xe2\\x80\\xa8"),
        ]
        for (name, shown) in names {
            #expect("\(FileStoreError(.notFound, .load, key: name))".hasPrefix("load \(shown): "))
            #expect("\(CryptError(.invalidKey, .get, key: name))".hasPrefix("get \"\(shown)\": "))
            let invalid = #expect(throws: InvalidKey.self) { try RelativeKey("#lock" + name) }
            #expect("\(try #require(invalid))".hasPrefix("the key #lock\(shown) "))
            #expect("\(KVStoreError(.conflict, .get, key: name))".hasPrefix("get \"\(shown)\": "))
            #expect(POSIXPath(name).description == shown)
        }
    }

    @Test("tables show different names differently")
    func namesInTables() throws {
        let scratch = try Scratch()
        let store = try FileKVStore(at: scratch.url.appendingPathComponent("kv"))
        let names = ["\u{1B}[31m", "\\x1b[31m", "\\\\x1b[31m", "a\u{200B}", "a", "C:\\dir"]
        for name in names { try store.set(KVKey<Int>(name), value: 1) }
        try store.close()
        let output = try CommandRun(["kv", "list", scratch.path("kv")]).output
        let shown = Set(output.split(separator: "\n").dropFirst(2).compactMap { $0.split(separator: " ").first })
        #expect(shown.count == names.count, "\(output)")
        #expect(output.contains("C:\\\\dir "))
    }

    @Test("escaped JSON represents the same value")
    func json() throws {
        let object = ["key\u{9B}\u{7F}": "\u{2028}\u{1B}"]
        let text = String(decoding: try JSONEncoder().encode(object), as: UTF8.self).escapingControlsOfJSON()
        #expect(text.unicodeScalars.allSatisfy { $0.isASCII && $0.value >= 0x20 && $0.value < 0x7F })
        #expect(try JSONDecoder().decode([String: String].self, from: Data(text.utf8)) == object)
    }

    @Test("no verb writes a control character of a name or value, to standard output or standard error")
    func verbs() throws {
        let scratch = try Scratch()
        let name = Self.hostile
        let store = scratch.path("kv")
        let vault = [scratch.path("vault/v"), "--key-file", scratch.path("vault/key")]
        #expect(try CommandRun(["kv", "set", store, name, name, "--string"]).status == 0)
        #expect(try CommandRun(["secret", "set"] + vault + [name, "--create"], input: "x").status == 0)
        try Data("x".utf8).write(to: scratch.url.appendingPathComponent("kv/\(name)"))
        let runs: [[String]] = [
            ["kv", "list", store], ["kv", "list", store, "--json"], ["kv", "get", store, name],
            ["kv", "get", store, name, "--json"], ["kv", "get", store, "none" + name],
            ["kv", "rm", store, "no" + name],
            ["kv", "list", scratch.path(name)], ["secret", "list"] + vault, ["secret", "list"] + vault + ["--json"],
            ["secret", "get"] + vault + ["none" + name], ["file", "get", store, name], ["file", "list", store],
            ["check", scratch.url.path], ["check", scratch.url.path, "--json"], ["kv", name],
            ["demo", "--directory", scratch.path("demo\u{1B}[31m")],
        ]
        for arguments in runs {
            let run = try CommandRun(arguments)
            for text in [run.output, run.errors] {
                let found = text.unicodeScalars.filter {
                    $0 != "\n" && ($0.properties.generalCategory == .control || $0 == "\u{202E}")
                }
                #expect(found.isEmpty, "\(arguments.map(\.debugDescription)): \(text.debugDescription)")
            }
        }
    }

    @Test("a truncated value in a list ends in an ellipsis")
    func ellipsis() throws {
        #expect("12345".shortened(to: 5) == "12345")
        #expect("123456".shortened(to: 5) == "1234…")
        #expect("12345".shortenedInside(to: 5) == "12345")
        #expect("123456".shortenedInside(to: 5) == "12…56")
    }
}

/// Pins the help texts, which users rely on like on the commands.
struct HelpTests {
    private static let commands: [(name: String, type: any ParsableCommand.Type)] = [
        ("forge", ForgeCommand.self), ("forge-demo", DemoCommand.self), ("forge-check", CheckCommand.self),
        ("forge-kv", KVCommand.self), ("forge-kv-get", KVCommand.Get.self), ("forge-kv-set", KVCommand.Set.self),
        ("forge-kv-list", KVCommand.List.self), ("forge-kv-rm", KVCommand.Remove.self),
        ("forge-file", FileCommand.self), ("forge-file-get", FileCommand.Get.self),
        ("forge-file-set", FileCommand.Set.self), ("forge-file-list", FileCommand.List.self),
        ("forge-file-rm", FileCommand.Remove.self), ("forge-secret", SecretCommand.self),
        ("forge-secret-get", SecretCommand.Get.self), ("forge-secret-set", SecretCommand.Set.self),
        ("forge-copy", CopyCommand.self), ("forge-backup", BackupCommand.self), ("forge-restore", RestoreCommand.self),
        ("forge-repair", RepairCommand.self), ("forge-watch", WatchCommand.self), ("forge-du", DiskUsageCommand.self),
        ("forge-secret-list", SecretCommand.List.self), ("forge-secret-rm", SecretCommand.Remove.self),
        ("forge-serve", ServeCommand.self),
    ]

    @Test("a command's help matches the pinned file", arguments: commands.map(\.name))
    func isPinned(name: String) throws {
        let command = try #require(Self.commands.first { $0.name == name }?.type)
        let help = ForgeCommand.helpMessage(for: command, columns: 100)
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("Help/\(name).txt")
        // To change a pinned text, run the tests with FORGE_PIN_HELP=1 and review the difference.
        if ProcessInfo.processInfo.environment["FORGE_PIN_HELP"] != nil {
            try Data(help.utf8).write(to: file)
        }
        #expect(try String(contentsOf: file, encoding: .utf8) == help)
    }
}
