import ForgeStorage
import Foundation
import Testing
@testable import ForgeCommands

@Suite("secret set")
struct SecretInputTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    private var vault: [String] { [scratch.path("vault"), "--key-file", scratch.path("key")] }

    private func stored(_ input: Data) throws -> Data {
        let set = try CommandRun(["secret", "set"] + vault + ["a", "--create"], input: input)
        #expect(set.status == 0, "\(set.errors)")
        return Data(try CommandRun(["secret", "get"] + vault + ["a"]).output.utf8)
    }

    @Test("the secret is all of standard input except one line feed at the end")
    func wholeInput() throws {
        let pem = "-----BEGIN KEY-----\nMIIB\r\nAAAA\n-----END KEY-----\n"
        #expect(try stored(Data(pem.utf8)) == Data(pem.utf8))
        #expect(try stored(Data("one".utf8)) == Data("one\n".utf8))
        #expect(try stored(Data("two\n\n".utf8)) == Data("two\n\n".utf8))
    }

    @Test(
        "input that is empty or not UTF-8 is refused, and no file is created",
        arguments: [Data(), Data("\n".utf8), Data([0x66, 0xFF, 0xFE]), Data([0xC3])])
    func refused(input: Data) throws {
        let run = try CommandRun(["secret", "set"] + vault + ["a", "--create"], input: input)
        #expect(run.status == 1)
        #expect(run.errorLines.count == 1)
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).isEmpty)
    }

    @Test("input of more than 16 MiB is refused, and the vault refuses a secret that is longer in its envelope")
    func longest() throws {
        let limit = 16 << 20
        for (count, message) in [(limit + 1, "standard input is longer than 16 MiB"), (limit, "too large")] {
            let run = try CommandRun(
                ["secret", "set"] + vault + ["a", "--create"], input: Data(repeating: 0x78, count: count))
            #expect(run.status == 1 && run.errors.contains(message), "\(run.errors)")
        }
    }

    @Test("a missing vault or key file is created only with --create")
    func create() throws {
        let refused = try CommandRun(["secret", "set"] + vault + ["a"], input: "x")
        #expect(refused.status == 4)
        #expect(refused.errors.contains("there is no vault at"))
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).isEmpty)
        #expect(try CommandRun(["secret", "set"] + vault + ["a", "--create"], input: "x").status == 0)
        let typo = [scratch.path("vault"), "--key-file", scratch.path("kye")]
        for verb in [["set"], ["get"], ["rm"]] {
            let run = try CommandRun(["secret"] + verb + typo + ["a"], input: "x")
            #expect(run.status == 4)
            #expect(run.errors.contains("there is no key file at"))
            #expect(!FileManager.default.fileExists(atPath: scratch.path("kye")))
        }
        #expect(try CommandRun(["secret", "set"] + vault + ["a"], input: "y").status == 0)
    }

    @Test("--create with a mistyped key file of an existing vault creates no key file")
    func createWithMistypedKeyFile() throws {
        #expect(try CommandRun(["secret", "set"] + vault + ["a", "--create"], input: "x").status == 0)
        let run = try CommandRun(
            ["secret", "set", scratch.path("vault"), "--key-file", scratch.path("kye"), "a", "--create"], input: "y")
        #expect(run.status == 4)
        #expect(run.errors.contains("there is no key file at"), "\(run.errors)")
        #expect(!FileManager.default.fileExists(atPath: scratch.path("kye")))
    }

    @Test("the vault is no key file of its own", arguments: ["new", "./new", "link/new", "to-new"])
    func oneFile(key: String) throws {
        try FileManager.default.createSymbolicLink(atPath: scratch.path("link"), withDestinationPath: ".")
        try FileManager.default.createSymbolicLink(atPath: scratch.path("to-new"), withDestinationPath: "link/new")
        let path = "\(scratch.url.path)/\(key)"
        let words = ["secret", "set", scratch.path("new"), "--key-file", path, "a", "--create"]
        let run = try CommandRun(words, input: "x")
        let reason = "cannot be the vault and the key file: give another --key-file"
        #expect(run.status == 1 && run.errors == "Error: \(scratch.path("new")) \(reason)\n", "\(run.errors)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).sorted() == ["link", "to-new"])
    }

    @Test(
        "neither a vault nor a key is created in the directory of another store, or over one of its files",
        arguments: [
            "F/a", "F/new", "F/d/b", "F/d/new", "F/#journal-0", "D/a", "D/new", "I/a\(ImageFile.suffix)", "I/new",
            "C/a\(CacheDirectory.suffix)", "C/new", "S/log", "S/#reserve",
        ])
    func otherStores(path: String) async throws {
        let url = scratch.url
        let files = DiskFileStore(root: url.appendingPathComponent("F"))
        for key in ["a", "d/b"] { try await files.save(Data("text".utf8), to: key) }
        try DiskStorage(path: url.appendingPathComponent("D")).save(value: Data("text".utf8), for: "a")
        try ImageCacheManager(cacheDirectory: url.appendingPathComponent("I")).cacheImage(id: "a", data: Data([1]))
        await (try BoundedCache<String>(directory: url.appendingPathComponent("C"), coding: .codable)).insert(
            "text", for: "a")
        try FileKVStore(at: url.appendingPathComponent("S")).set(KVKey<Int>("key"), value: 1)
        _ = try VaultKeyFile.loadOrCreate(at: url.appendingPathComponent("V/key"))
        let before = try scratch.contents("")
        for words in [
            [scratch.path(path), "--key-file", scratch.path("V/key")],
            [scratch.path("V/new"), "--key-file", scratch.path(path)],
        ] {
            let run = try CommandRun(["secret", "set"] + words + ["token", "--create"], input: "secret")
            #expect(run.status != 0 && run.errorLines.count == 1, "\(words): \(run.status) \(run.errors)")
            #expect(try scratch.contents("") == before, "\(words)")
        }
    }

    @Test("the error of a missing vault names the option that creates it")
    func missingVault() throws {
        let run = try CommandRun(["secret", "set"] + vault + ["a"], input: "x")
        #expect(run.errors.contains("--create"), "\(run.errors)")
        #expect(try !CommandRun(["secret", "rm"] + vault + ["a"]).errors.contains("--create"))
    }
}

@Suite("Wrong usage of secret")
struct SecretArgumentTests {
    @Test(
        "no message quotes an argument that may be a secret",
        arguments: [
            "secret set v --key-file k name hunter2", "secret set v --key-file k name hunter2 hunter2",
            "secret set v --key-file k name --hunter2", "secret set v --key-file k name --create=hunter2",
            "secret hunter2", "secret sett v --key-file k name hunter2",
            "secert set v --key-file k name hunter2", "secret get v --key-file k name hunter2",
            "secret rm v --key-file k name hunter2", "secret list v --key-file k hunter2",
        ])
    func isSilent(words: String) throws {
        let run = try CommandRun(words.split(separator: " ").map(String.init))
        #expect(run.status == 64)
        #expect(!run.errors.contains("hunter2"), "\(run.errors)")
        #expect(run.output.isEmpty)
        #expect(run.errors.contains("Usage: forge"), "\(run.errors)")
    }

    @Test("a missing argument is named, and other verbs quote what they do not expect")
    func namesMissing() throws {
        #expect(try CommandRun(["secret", "set", "v"]).errors.contains("--key-file"))
        #expect(try CommandRun(["secret", "set", "v", "--key-file"]).errors.contains("Missing value"))
        #expect(try CommandRun(["kv", "list", "a", "unexpected"]).errors.contains("'unexpected'"))
    }
}

#if os(Linux)
import ChildProcesses
import Foundation
import Testing

@Suite("secret set, and progress, on a terminal")
struct TerminalTests {
    /// A pseudo-terminal whose slave side is the standard input of a command.
    private final class Terminal {
        let master: CInt
        let slave: CInt

        init() throws {
            // Glibc's module leaves posix_openpt(3) out; these are the calls that it makes.
            master = open("/dev/ptmx", O_RDWR | O_NOCTTY)
            var number: CInt = 0
            try #require(ioctl(master, 0x4004_5431, &number) == 0, "TIOCSPTLCK")
            try #require(ioctl(master, 0x8004_5430, &number) == 0, "TIOCGPTN")
            slave = open("/dev/pts/\(number)", O_RDWR | O_NOCTTY)
            try #require(slave >= 0)
        }

        var echoes: Bool {
            get throws {
                var mode = termios()
                try #require(tcgetattr(slave, &mode) == 0)
                return mode.c_lflag & tcflag_t(ECHO) != 0
            }
        }

        func type(_ text: String) {
            _ = text.withCString { write(master, $0, strlen($0)) }
        }

        /// What the terminal shows next, for which it waits.
        func shown() throws -> String {
            var request = pollfd(fd: master, events: Int16(POLLIN), revents: 0)
            try #require(poll(&request, 1, 60_000) == 1)
            var bytes = [UInt8](repeating: 0, count: 1 << 10)
            let count = read(master, &bytes, bytes.count)
            return String(decoding: bytes.prefix(max(count, 0)), as: UTF8.self)
        }

        /// Whether the terminal shows something new within some milliseconds.
        func shows(within milliseconds: CInt) -> Bool {
            var request = pollfd(fd: master, events: Int16(POLLIN), revents: 0)
            return poll(&request, 1, milliseconds) == 1
        }

        deinit {
            close(master)
            close(slave)
        }
    }

    private let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    /// Starts `secret set` and returns once it has asked for the secret.
    private func start(on terminal: Terminal) throws -> ChildProcess {
        let errors = Pipe()
        let process = try ChildProcess(
            CommandRun.executable(),
            ["secret", "set", scratch.path("vault"), "--key-file", scratch.path("key"), "token", "--create"],
            input: .file(FileHandle(fileDescriptor: terminal.slave, closeOnDealloc: false)), errors: .pipe(errors))
        #expect(String(decoding: errors.fileHandleForReading.availableData, as: UTF8.self).hasPrefix("Secret"))
        return process
    }

    private func stored() throws -> String {
        let vault = [scratch.path("vault"), "--key-file", scratch.path("key")]
        return try CommandRun(["secret", "get"] + vault + ["token"]).output
    }

    /// Waits until a condition holds.
    private func eventually(_ condition: () throws -> Bool) throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while try !condition() {
            try #require(ContinuousClock.now < deadline)
            usleep(1000)
        }
    }

    @Test("one line is read without echo but for its end, and the echo is restored afterwards")
    func hidden() throws {
        let terminal = try Terminal()
        #expect(try terminal.echoes)
        let process = try start(on: terminal)
        #expect(try !terminal.echoes)
        terminal.type("s3cret\n")
        #expect(process.wait() == .exit(0))
        #expect(try terminal.echoes)
        #expect(try terminal.shown() == "\r\n")
        #expect(try stored() == "s3cret\n")
    }

    @Test("the progress of a copy is a line on a terminal, which is removed at the end")
    func progress() throws {
        let (terminal, input) = (try Terminal(), Pipe())
        let copy = try ChildProcess(
            CommandRun.executable(), ["copy", "json:-", "json:\(scratch.path("lines"))"], input: .pipe(input),
            output: .null, errors: .file(FileHandle(fileDescriptor: terminal.slave, closeOnDealloc: false)))
        defer { copy.send(SIGKILL) }
        var count = 0
        // Progress is shown with an item, a second after the start. Items are recorded by batches.
        repeat {
            let lines = (count..<count + 64).map { "{\"key\":\"\($0)\",\"value\":1}\n" }.joined()
            try input.fileHandleForWriting.write(contentsOf: Data(lines.utf8))
            count += 64
        } while !terminal.shows(within: 10) && copy.isRunning
        try input.fileHandleForWriting.close()
        #expect(copy.wait() == .exit(0))
        // A terminal passes on what is written to it in pieces.
        var shown = ""
        repeat { shown += try terminal.shown() } while !shown.hasSuffix("\r\u{1B}[K")
        #expect(shown.hasPrefix("\r") && shown.contains(" keys  "), "\(shown)")
        #expect(shown.hasSuffix("/s\u{1B}[K\r\u{1B}[K"), "\(shown)")
        let lines = try String(contentsOfFile: scratch.path("lines"), encoding: .utf8)
        #expect(lines.split(separator: "\n").count == count)
    }

    @Test("the echo is on while the command is stopped, and off again when it continues")
    func stopped() throws {
        let terminal = try Terminal()
        let process = try start(on: terminal)
        defer { process.send(SIGKILL) }
        process.send(SIGTSTP)
        try eventually { try String(contentsOfFile: "/proc/\(process.id)/stat", encoding: .utf8).contains(") T ") }
        #expect(try terminal.echoes)
        process.send(SIGCONT)
        try eventually { try !terminal.echoes }
        terminal.type("s3cret\n")
        #expect(process.wait() == .exit(0))
        #expect(try terminal.echoes)
        #expect(try stored() == "s3cret\n")
    }

    @Test("a line as long as the terminal's buffer is refused, because its rest may be lost")
    func longLine() throws {
        let terminal = try Terminal()
        let process = try start(on: terminal)
        terminal.type(String(repeating: "x", count: 5000) + "\n")
        #expect(process.wait() == .exit(1))
        #expect(try terminal.echoes)
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).isEmpty)
    }

    @Test("the longest line that is guaranteed to be complete is stored")
    func longestLine() throws {
        let secret = String(repeating: "x", count: 4094)
        let terminal = try Terminal()
        let process = try start(on: terminal)
        terminal.type(secret + "\n")
        #expect(process.wait() == .exit(0))
        #expect(try stored() == secret + "\n")
    }

    @Test("a line that control-D has divided is stored as a whole, also if it is longer than the terminal's buffer")
    func dividedLine() throws {
        let half = String(repeating: "x", count: 3000)
        let terminal = try Terminal()
        let process = try start(on: terminal)
        defer { process.send(SIGKILL) }
        let before = try readCount(process)
        terminal.type(half + "\u{04}")
        try eventually { try readCount(process) >= before + half.utf8.count }
        terminal.type(half + "\n")
        #expect(process.wait() == .exit(0))
        #expect(try stored() == half + half + "\n")
    }

    /// The number of bytes that a process has read.
    private func readCount(_ process: ChildProcess) throws -> Int {
        let counts = try String(contentsOfFile: "/proc/\(process.id)/io", encoding: .utf8).split(separator: "\n")
        let line = try #require(counts.first { $0.hasPrefix("rchar: ") })
        return try #require(Int(line.dropFirst(7)))
    }

    @Test(
        "a signal restores the echo and ends the command",
        arguments: [
            SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGVTALRM, SIGPROF, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ, SIGIO,
            SIGPWR, SIGSTKFLT, SIGABRT, SIGSYS, 34, 64,
        ])
    func interrupted(signal: CInt) throws {
        let terminal = try Terminal()
        let process = try start(on: terminal)
        process.send(signal)
        #expect(process.wait() == .signal(signal))
        #expect(try terminal.echoes)
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).isEmpty)
    }
}
#endif
