#if os(Linux)
import ChildProcesses
import Foundation
import Testing

@Suite("secret set on a terminal")
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

    @Test("one line is read without echo, and the echo is restored afterwards")
    func hidden() throws {
        let terminal = try Terminal()
        #expect(try terminal.echoes)
        let process = try start(on: terminal)
        #expect(try !terminal.echoes)
        terminal.type("s3cret\n")
        #expect(process.wait() == .exit(0))
        #expect(try terminal.echoes)
        let vault = [scratch.path("vault"), "--key-file", scratch.path("key")]
        #expect(try CommandRun(["secret", "get"] + vault + ["token"]).output == "s3cret\n")
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
        let vault = [scratch.path("vault"), "--key-file", scratch.path("key")]
        #expect(try CommandRun(["secret", "get"] + vault + ["token"]).output == secret + "\n")
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
