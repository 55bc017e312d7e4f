import ArgumentParser
import ForgeFileSystem
import ForgeStorage
import Foundation
import SystemPackage
import Testing

@testable import ForgeCommands

@Suite("Exit statuses")
struct ExitStatusTests {
    // Swift Testing has a type of the same name.
    private typealias ExitStatus = ForgeCommands.ExitStatus

    @Test("the statuses have the documented numbers")
    func numbers() {
        #expect(ExitStatus.allCases.map(\.rawValue) == [0, 1, 2, 4, 5, 6, 7, 8, 64, 69, 130])
    }

    @Test("an error of a library has the status of its cause")
    func ofErrors() {
        let cases: [(any Error, ExitStatus)] = [
            (KVStoreError(.unavailable(.inUse(processID: 1)), .open), .inUse),
            (KVStoreError(.noStore, .open), .notFound),
            (KVStoreError(.damaged, .open), .failure), (FileStoreError(.notFound, .load), .notFound),
            (FileStoreError(.invalidSource(.notFound), .copy), .notFound),
            (FileStoreError(.unavailable(.inUse(processID: nil)), .save), .inUse),
            (FileStoreError(.noSpace, .save), .failure), (FileStoreError(.unavailable(.server), .load), .unreachable),
            (FileStoreError(.unknownOutcome, .save), .unknownOutcome),
            (KVStoreError(.timeout, .read), .unreachable),
            (KVStoreError(.unavailable(.server), .read), .unreachable),
            (KVStoreError(.unknownOutcome, .batch), .unknownOutcome),
            (KVStoreError(.refused, .logIn), .failure), (KVStoreError(.cancelled, .read), .interrupted),
            (CommandFailure.notBuilt("a", trait: "b"), .notBuilt),
            (CryptError(.wrongKey, .get), .wrongKey), (CryptError(.unavailable(.inUse(processID: nil)), .set), .inUse),
            (CryptError(.tampered, .get), .failure), (FileSystemError(.open, .permissionDenied), .failure),
            (FileStoreError(.deadlineExceeded(.directoryLock), .save), .inUse),
            (FileStoreError(.deadlineExceeded(.device), .save), .failure),
            (FileStoreError(.unavailable(.inputOutput), .save), .failure),
            (KVStoreError(.unavailable(.inputOutput), .set), .failure),
            (CryptError(.unavailable(.inputOutput), .set), .failure),
            (CancellationError(), .interrupted), (CommandFailure("", .partial), .partial),
        ]
        for (error, status) in cases { #expect(ExitStatus(of: error) == status, "\(error)") }
    }

    @Test("with --json, an error is one JSON object with the code, its word and the text")
    func errorsAsJSON() async throws {
        let fixture = try await StoreFixture()
        let root = fixture.scratch.url.path
        let vault = ["\(root)/vault/v", "--key-file", "\(root)/other"]
        _ = try VaultKeyFile.loadOrCreate(at: fixture.scratch.url.appendingPathComponent("other"))
        let cases: [([String], Int32, String)] = [
            (["kv", "get", "\(root)/kv", "none"], 4, "notFound"), (["kv", "get", "\(root)/kv"], 64, "usage"),
            (["secret", "get"] + vault + ["token"], 6, "wrongKey"), (["check", "\(root)/none"], 4, "notFound"),
            (["file", "get", "\(root)/files", "a.txt"], 64, "usage"),
        ]
        for (arguments, code, kind) in cases {
            let run = try CommandRun(arguments + ["--json"])
            let failure = try run.failure()
            #expect(run.status == code, "\(run.errors)")
            #expect(failure["code"] as? Int32 == code)
            #expect(failure["kind"] as? String == kind)
            #expect((failure["message"] as? String)?.isEmpty == false)
            #expect(run.output.isEmpty)
        }
    }

    @Test("a place that cannot be looked at is an error of the system, and not a missing store")
    func places() throws {
        let scratch = try Scratch()
        try scratch.plant("file")
        try FileManager.default.createSymbolicLink(atPath: scratch.path("loop"), withDestinationPath: "loop")
        func url(_ path: String) -> URL { scratch.url.appendingPathComponent(path) }
        for path in ["loop", "loop/x"] {
            let error = #expect(throws: FileSystemError.self, "\(path)") { try itemExists(at: url(path)) }
            #expect(error?.errno == .tooManySymbolicLinkLevels)
        }
        #expect(try itemExists(at: url("file")) && !itemExists(at: url("file"), isDirectory: true))
        #expect(try itemExists(at: scratch.url, isDirectory: true))
        #expect(try !itemExists(at: url("none")) && !itemExists(at: url("none/x")) && !itemExists(at: url("file/x")))
    }

    @Test("a store that another process has open exclusively is in use")
    func inUse() async throws {
        let fixture = try await StoreFixture()
        let store = try FileKVStore(at: fixture.scratch.url.appendingPathComponent("kv"))
        for arguments in [
            ["kv", "set", fixture.scratch.path("kv"), "a", "1"], ["kv", "rm", fixture.scratch.path("kv"), "name"],
        ] {
            let run = try CommandRun(arguments)
            #expect(run.status == 5, "\(run.errors)")
            #expect(run.errorLines.count == 1)
        }
        withExtendedLifetime(store) {}
    }

    @Test("verbs that change an item, or read a secret, print it with --json")
    func actions() async throws {
        let fixture = try await StoreFixture()
        let root = fixture.scratch.url.path
        let vault = ["\(root)/vault/v", "--key-file", "\(root)/vault/key"]
        let cases: [([String], String)] = [
            (["kv", "set", "\(root)/kv", "a", "1"], #"{"action":"set","bytes":3,"key":"a"}"#),
            (["kv", "rm", "\(root)/kv", "a"], #"{"action":"remove","key":"a"}"#),
            (["file", "set", "\(root)/files", "b"], #"{"action":"set","bytes":1,"key":"b"}"#),
            (
                ["file", "get", "\(root)/files", "b", "-o", "\(root)/o"],
                #"{"action":"get","bytes":1,"destination":"\#(root)/o","key":"b"}"#
            ),
            (["file", "rm", "\(root)/files", "b"], #"{"action":"remove","key":"b"}"#),
            (["secret", "set"] + vault + ["b"], #"{"action":"set","key":"b"}"#),
            (["secret", "rm"] + vault + ["b"], #"{"action":"remove","key":"b"}"#),
            (["secret", "get"] + vault + ["token"], #"{"name":"token","secret":"s3cret"}"#),
            (["secret", "list"] + vault, #"{"name":"token"}"#),
        ]
        for (arguments, line) in cases {
            let run = try CommandRun(arguments + ["--json"], input: "x")
            #expect(run.status == 0 && run.output == line + "\n", "\(arguments) \(run.output) \(run.errors)")
        }
        let demo = try CommandRun(["demo", "--json", "--directory", "\(root)/demo"])
        #expect(demo.status == 0, "\(demo.errors)")
        #expect(Set(try demo.rows().map { $0["store"] as? String }).count == 5)
    }
}

@Suite("The text of a file-system error")
struct FailureTextTests {
    @Test("an error contains the system's cause")
    func cause() throws {
        let scratch = try Scratch()
        try Data("x".utf8).write(to: scratch.url.appendingPathComponent("file"))
        let vault = [scratch.path("file/v"), "--key-file", scratch.path("file/k")]
        for arguments in [
            ["kv", "set", scratch.path("file/kv"), "a", "1"], ["file", "set", scratch.path("file/f"), "a"],
            ["secret", "set"] + vault + ["a", "--create"],
        ] {
            let run = try CommandRun(arguments, input: "x")
            #expect(run.status == 1)
            #expect(run.errors.contains("ENOTDIR"), "\(run.errors)")
            #expect(!run.errors.contains("input/output"))
        }
    }

    @Test("a full device and a refusal have the system's description, not that of an input/output failure")
    func plainWords() {
        for (errno, text) in [
            (Errno.noSpace, "No space left on device (ENOSPC)"), (.permissionDenied, "Permission denied (EACCES)"),
        ] {
            let cause = FileSystemError(.write, errno, path: "/a/log")
            for error: any Error in [
                KVStoreError(.unavailable(.inputOutput), .set, key: "a", store: "/a", underlying: cause),
                FileStoreError(.unavailable(.inputOutput), .save, key: "a", underlying: cause),
                CryptError(.unavailable(.inputOutput), .set, path: "/a/v", underlying: cause),
            ] {
                #expect("\(error)".contains(text), "\(error)")
                #expect(!"\(error)".contains("input/output"), "\(error)")
            }
        }
    }

    @Test("--version prints a version")
    func version() throws {
        let run = try CommandRun(["--version"])
        #expect(run.status == 0)
        #expect(run.output.first?.isNumber == true)
    }
}

@Suite("Messages and reports of commands")
struct MessageTests {
    @Test("an error is one line, but of the parser; JSON has the status, its word and the text")
    func errors() throws {
        #expect(ErrorMessage.text("Error: a\nb") == "Error: a\\x0ab\n")
        #expect(ErrorMessage.text("Error: a\nb\t", hasLines: true) == "Error: a\nb\\x09\n")
        #expect(ErrorMessage.json("Error: a", code: 4) == #"{"code":4,"kind":"notFound","message":"a"}"# + "\n")
        #expect(ErrorMessage.json("a", code: 3) == #"{"code":3,"kind":"failure","message":"a"}"# + "\n")
        // Wrong usage that the command finds itself, with the name of an output in it.
        let scratch = try Scratch()
        #expect(try CommandRun(["file", "set", scratch.path("f"), "a"], input: "x").status == 0)
        let run = try CommandRun(["file", "get", scratch.path("f"), "a", "-o", scratch.path("f/x\ny")])
        let reason = "is in the directory of a store: file store; choose another output"
        #expect(run.status == 64 && run.errors == "Error: \(scratch.path("f/x"))\\x0ay \(reason)\n", "\(run.errors)")
    }

    @Test("the type of a file that is skipped is named")
    func fileTypes() {
        let texts: [(FileType, String)] = [
            (.symbolicLink, "symbolic link"), (.fifo, "FIFO"), (.socket, "socket"), (.characterSpecial, "device"),
            (.blockSpecial, "device"), (.directory, "unknown"),
        ]
        for (type, text) in texts { #expect(type.text == text) }
    }

    @Test("the message of wrong usage quotes only what cannot be a secret, and names -- where it may help")
    func usage() {
        func text(_ message: String, _ words: String) -> String {
            UsageMessage(message, arguments: words.split(separator: " ").map(String.init)).text
        }
        let (unknown, missing) = ("Error: Unknown option '-x'", "Error: Missing expected argument '<key>'")
        let unexpected = "Error: Unexpected argument 'zz'"
        let kept: [(message: String, words: String, isAboutHyphens: Bool)] = [
            (unknown, "kv get s -x", true), (unknown, "-x", true),
            ("\(unknown). \(UsageMessage.hint)", "kv get s -xyz", false), (missing, "kv get -9", true),
            (missing, "kv get s", false), (missing, "kv get -- -9", false), (missing, "secret set v -9", true),
            (unexpected, "kv list s -x zz", false), (unexpected, "help zz", false),
        ]
        for (message, words, isAboutHyphens) in kept {
            #expect(text(message, words) == message + (isAboutHyphens ? "\n\(UsageMessage.hint)" : ""), "\(words)")
        }
        let replaced: [(words: String, command: any ParsableCommand.Type)] = [
            ("secret set v zz", SecretCommand.Set.self), ("secret sett zz", SecretCommand.self),
            ("secert set zz", ForgeCommand.self), ("zz", ForgeCommand.self),
        ]
        for (words, command) in replaced {
            let message = text(unexpected, words)
            #expect(message.hasSuffix("\nUsage: \(ForgeCommand.usageString(for: command))"), "\(message)")
            #expect(!message.contains("zz"))
        }
    }

    @Test("an argument of one hyphen and several letters is refused, unless it follows --")
    func combinedOptions() throws {
        for word in ["-ah", "-zh", "-Ah", "-Zh", "-height"] {
            #expect(throws: ValidationError.self, "\(word)") {
                try ForgeCommand.refuseCombinedOptions(in: ["kv", word])
            }
        }
        for words in [["-a"], ["-"], ["--all"], ["-1h"], ["-@h"], ["-[h"], ["-`h"], ["-{h"], ["--", "-ah"]] {
            try ForgeCommand.refuseCombinedOptions(in: words)
        }
    }

    @Test("a copy counts what it did, and its end tells what failed or was skipped")
    func copies() throws {
        func newLog() throws -> TransferLog { TransferLog(try TransferArguments.parse(["kv:a", "json:-"])) }
        let log = try newLog()
        try log.record(.equal, "a")
        #expect(!log.hasChanges && !log.hasFailed)
        for action in [TransferLog.Action.copy, .delete] { try log.record(action, "a") }
        #expect(log.hasChanges)
        for action in [TransferLog.Action.replace, .equal, .equal, .removed] { try log.record(action, "a") }
        try log.finish()
        try log.requireCompleteSource()
        try log.record(.skip, "a")
        let skipped = #expect(throws: CommandFailure.self) { try log.finish() }
        #expect(skipped?.status == .partial && skipped?.description == "1 item skipped: see the list")
        for _ in 0..<2 { try log.record(.fail, "a") }
        #expect(log.hasFailed)
        let partial = #expect(throws: CommandFailure.self) { try log.finish() }
        #expect(partial?.status == .partial && partial?.description == "2 items failed, 6 did not")
        let incomplete = #expect(throws: CommandFailure.self) { try log.requireCompleteSource() }
        #expect(incomplete?.status == .partial && incomplete?.description == "nothing was deleted: 2 items failed")
        let other = try newLog()
        try other.record(.fail, "a")
        let failure = #expect(throws: CommandFailure.self) { try other.finish() }
        #expect(failure?.status == .failure && failure?.description == "1 item failed, 0 did not")
    }

    @Test("a backup of which one file failed and another was left out is partial", arguments: [true, false])
    func backups(json: Bool) throws {
        for isFailure in [true, false] {
            let report = BackupReport("saved", json: json)
            #expect(report.isEmpty)
            try report.count(bytes: 1)
            if isFailure { try report.fail("a", "reason") } else { try report.skip("a", "reason") }
            #expect(!report.isEmpty)
        }
        let report = BackupReport("saved", json: json)
        try report.fail("a", "reason")
        try report.skip("b", "reason")
        #expect(!report.isEmpty)
        let failure = #expect(throws: CommandFailure.self) { try report.finish("place") }
        #expect(failure?.status == .partial && failure?.description == "1 failed, 1 left out: see the list")
    }

    @Test("a copy goes on after an error of one file, and not after one of all files")
    func errorsOfOneFile() {
        func error(_ code: FileStoreError.Code, _ cause: FileSystemError? = nil) -> any Error {
            FileStoreError(code, .save, key: "a", underlying: cause)
        }
        let ofOne: [any Error] = [
            CopyDamage(), PresentStore(text: "a"), error(.notFound), error(.isDirectory),
            error(.unavailable(.inputOutput)),
            error(.unavailable(.inputOutput), FileSystemError(.rename, .resourceBusy)),
            error(.unavailable(.inputOutput), FileSystemError(.unlink, .resourceBusy)),
            error(.notPermitted, FileSystemError(.open, .permissionDenied)), FileSystemError(.write, .notPermitted),
            FileSystemError(.open, .notDirectory), FileSystemError(.write, .fileNameTooLong),
            FileSystemError(.open, .notSupported), FileSystemError(.open, .noSuchAddressOrDevice),
        ]
        for error in ofOne { #expect(error.concernsOneFile, "\(error)") }
        let ofAll: [any Error] = [
            error(.noSpace), error(.unavailable(.server)), error(.notPermitted),
            error(.notPermitted, FileSystemError(.open, .readOnlyFileSystem)),
            error(.unavailable(.inputOutput), FileSystemError(.write, .resourceBusy)),
            error(.unavailable(.inputOutput), FileSystemError(.rename, .ioError)), FileSystemError(.write, .noSpace),
            FileSystemError(.write, .notSupported), FileSystemError(.open, .ioError), CancellationError(),
        ]
        for error in ofAll { #expect(!error.concernsOneFile, "\(error)") }
    }
}

#if os(Linux)
import ChildProcesses
import Foundation
import Testing

@Suite("control-C")
struct InterruptionTests {
    /// A pipe without room, so that a process that writes to it waits.
    private struct FullPipe {
        let pipe = Pipe()

        init() throws {
            let descriptor = pipe.fileHandleForWriting.fileDescriptor
            let flags = fcntl(descriptor, F_GETFL)
            try #require(fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0)
            let bytes = [UInt8](repeating: 0, count: 1 << 12)
            while write(descriptor, bytes, bytes.count) > 0 {}
            while write(descriptor, bytes, 1) > 0 {}
            try #require(fcntl(descriptor, F_SETFL, flags) == 0)
        }
    }

    /// `write(2)` to standard output, by the numbers of x86_64 and arm64; the other's number is a call not made here.
    private static let writeCalls = ["1 0x1 ", "64 0x1 "]

    /// Whether a thread of a process waits in `write(2)` to standard output.
    private func isWriting(_ process: ChildProcess) -> Bool {
        let tasks = "/proc/\(process.id)/task"
        let names = (try? FileManager.default.contentsOfDirectory(atPath: tasks)) ?? []
        return names.contains { name in
            let call = try? String(contentsOfFile: "\(tasks)/\(name)/syscall", encoding: .utf8)
            return Self.writeCalls.contains { call?.hasPrefix($0) == true }
        }
    }

    @Test(
        "a verb that control-C ends prints one line and has the status of SIGINT", .timeLimit(.minutes(10)),
        arguments: Verb.all)
    func interrupted(verb: Verb) async throws {
        // The others print nothing else that they could wait for; `check` stands for the form of the error.
        let json = !verb.prints || verb.name == "check"
        let fixture = try await StoreFixture()
        try verb.prepare(fixture.scratch.url.path)
        let output = try FullPipe()
        let errors = Pipe()
        let input = fixture.scratch.url.appendingPathComponent("input")
        try Data(verb.input.utf8).write(to: input)
        let process = try ChildProcess(
            CommandRun.executable(), verb.words(in: fixture.scratch.url.path) + (json ? ["--json"] : []),
            input: .file(FileHandle(forReadingFrom: input)), output: .pipe(output.pipe), errors: .pipe(errors))
        while process.isRunning, !isWriting(process) { usleep(1000) }
        // A verb that has something to tidy up is asked first.
        for _ in 0..<2 where process.isRunning {
            process.send(SIGINT)
            for _ in 0..<20 where process.isRunning { usleep(1000) }
        }
        #expect(process.wait(killingAfter: .seconds(60)) == .exit(130))
        let message = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        let expected =
            json ? "{\"code\":130,\"kind\":\"interrupted\",\"message\":\"interrupted\"}\n" : "Error: interrupted\n"
        #expect(message == expected)
    }

    @Test("a backup that control-C ends leaves nothing beside its destination", .timeLimit(.minutes(10)))
    func interruptedBackup() throws {
        let scratch = try Scratch()
        for number in 0..<20 {
            try scratch.plant("s/z\(number)")
            try FileManager.default.createSymbolicLink(
                atPath: scratch.path("s/link\(number)"), withDestinationPath: "z0")
        }
        var end = ChildProcess.End.exit(2)
        // The backup may be complete before the signal arrives: then once more.
        for _ in 0..<20 where end == .exit(2) {
            try? FileManager.default.removeItem(atPath: scratch.path("b"))
            let output = try FullPipe()
            let process = try ChildProcess(
                CommandRun.executable(), ["backup", scratch.path("s"), scratch.path("b")], output: .pipe(output.pipe),
                errors: .null)
            // It waits with the line about the first link.
            while process.isRunning, !isWriting(process) { usleep(1000) }
            #expect(FileManager.default.fileExists(atPath: scratch.path(".b.partial")))
            process.send(SIGINT)
            _ = try output.pipe.fileHandleForReading.readToEnd()
            end = process.wait(killingAfter: .seconds(60))
        }
        #expect(end == .exit(130))
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path) == ["s"])
    }

    @Test("a restore that control-C ends leaves nothing beside its destination", .timeLimit(.minutes(10)))
    func interruptedRestore() throws {
        let scratch = try Scratch()
        for number in 0..<400 { try scratch.plant("s/\(number)") }
        #expect(try CommandRun(["backup", scratch.path("s"), scratch.path("b")]).status == 0)
        var end = ChildProcess.End.exit(0)
        // The restore may be complete before the signal arrives: then once more.
        for _ in 0..<20 where end == .exit(0) {
            try? FileManager.default.removeItem(atPath: scratch.path("r"))
            let process = try ChildProcess(
                CommandRun.executable(), ["restore", scratch.path("b"), scratch.path("r")], output: .null,
                errors: .null)
            while process.isRunning, !FileManager.default.fileExists(atPath: scratch.path(".r.partial")) { usleep(200) }
            process.send(SIGINT)
            end = process.wait(killingAfter: .seconds(60))
        }
        #expect(end == .exit(130))
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).sorted() == ["b", "s"])
    }
}
#endif
