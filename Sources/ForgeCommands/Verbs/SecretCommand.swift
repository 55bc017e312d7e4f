import ArgumentParser
import Crypto
import ForgeStorage
import Foundation
import SystemPackage

/// Reads and changes a vault. A secret comes from standard input: other users can see arguments.
struct SecretCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "secret", abstract: "Read and change a vault of secrets.",
        subcommands: [Get.self, Set.self, List.self, Remove.self])

    struct Get: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Write a secret and a line feed to standard output.",
            discussion: "The secret is written unchanged, including control characters.")

        @OptionGroup var vault: VaultArguments
        @Argument(help: "The name of the secret.") var name: String
        @Flag(help: "Print JSON, an object with the name and the secret; errors too.") var json = false

        func run() throws {
            guard let secret = try vault.open().get(CryptKey<String>(key: name)) else {
                throw CommandFailure("secret get \(name): there is no such secret in \(vault.path)", .notFound)
            }
            guard !json else { return try StandardOutput.print(line: ["name": name, "secret": secret]) }
            try StandardOutput.write(Data((secret + "\n").utf8))
        }
    }

    struct Set: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Store a secret from standard input.",
            discussion: """
                All of standard input is the secret, less one line feed at the end; it has to be UTF-8 text. If standard \
                input is a terminal, one line is read and not shown; use a pipe or a file for a secret of 4 KiB or more, \
                which a terminal cuts short.
                """)

        @OptionGroup var vault: VaultArguments
        @Argument(help: "The name of the secret.") var name: String
        @Flag(help: "Create the vault and the key file, readable by you alone, if they are missing.")
        var create = false
        @OptionGroup var output: JSONOption

        func run() throws {
            try vault.requireTwoFiles()
            // An existing vault has a key file; a new one beside it would only hide a mistyped path.
            if try !create || vault.exists() { try vault.requireAll(hint: "; --create creates one") }
            let secret = try SecretInput.read()
            try vault.openForWriting().set(secret, for: CryptKey<String>(key: name))
            if output.json { try StandardOutput.print(line: ActionLine(action: "set", key: name)) }
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the names of the secrets.")

        @OptionGroup var vault: VaultArguments
        @OptionGroup var output: JSONOption

        func run() throws {
            let names = try vault.open().keys()
            guard !output.json else { return try names.forEach { try StandardOutput.print(line: ["name": $0]) } }
            try StandardOutput.print(names.map { POSIXPath($0).description })
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(commandName: "rm", abstract: "Remove a secret.")

        @OptionGroup var vault: VaultArguments
        @Argument(help: "The name of the secret.") var name: String
        @OptionGroup var output: JSONOption

        func run() throws {
            try vault.requireAll()
            let secrets = try vault.openForWriting()
            guard try secrets.contains(CryptKey<String>(key: name)) else {
                throw CommandFailure("secret rm \(name): there is no such secret in \(vault.path)", .notFound)
            }
            try secrets.delete(CryptKey<String>(key: name))
            if output.json { try StandardOutput.print(line: ActionLine(action: "remove", key: name)) }
        }
    }
}

/// The locations of the vault and its key.
struct VaultArguments: ParsableArguments {
    @Argument(help: "The file of the vault.") var path: String
    @Option(help: ArgumentHelp("The file that holds the vault's key.", valueName: "file"))
    var keyFile: String

    private var keyFileURL: URL { URL(POSIXPath(keyFile)) }

    func validate() throws {
        try requirePath(path, of: "vault")
        try requirePath(keyFile, of: "key file")
    }

    /// Opens an existing vault with an existing key file, for reading.
    func open() throws -> VaultCrypt {
        try requireStore("vault", at: URL(POSIXPath(path)))
        let key = try loadKey(at: keyFileURL)
        return try VaultCrypt(at: URL(POSIXPath(path)), key: key)
    }

    /// Opens the vault with a key that is durable, creating the key file if it is missing.
    func openForWriting() throws -> VaultCrypt {
        let vault = try POSIXPath(URL(POSIXPath(path)))
        // The message of wrong usage would not name the path, since it may be a secret.
        try requireOutsideBackups(vault, path, .failure)
        try requireKnownStore(at: vault, path)
        if try !itemExists(at: keyFileURL) {
            try requireOutsideBackups(POSIXPath(keyFileURL), keyFile, .failure)
            try requireKnownStore(at: POSIXPath(keyFileURL), keyFile)
        }
        return try VaultCrypt(at: URL(POSIXPath(path)), key: VaultKeyFile.loadOrCreate(at: keyFileURL))
    }

    /// Throws if the paths of the vault and of the key file lead to one file, whether or not it exists.
    func requireTwoFiles() throws {
        let (vault, key) = (try POSIXPath(URL(POSIXPath(path))), try POSIXPath(keyFileURL))
        let (own, other) = (Self.place(vault), Self.place(key))
        let isOne = own.directory != nil && own.directory == other.directory && own.name == other.name
        guard vault == key || isOne else { return }
        throw CommandFailure("\(path) cannot be the vault and the key file: give another --key-file")
    }

    /// The directory and name of the file to which a path leads; no directory if that does not exist or is not known.
    private static func place(_ path: POSIXPath) -> (directory: DirectoryIdentity?, name: POSIXPath) {
        do throws(FileSystemError) {
            let (parent, name) = try SystemFileSystem().followingFinalLinks(path).splitLast()
            return (Ancestry.identity(of: parent), name)
        } catch {
            return (nil, path)  // Opening the file reports the error.
        }
    }

    /// Whether the vault exists.
    func exists() throws -> Bool { try itemExists(at: URL(POSIXPath(path))) }

    /// Throws unless vault and key file exist, so that a mistyped path creates neither.
    ///
    /// - Parameter hint: Text appended to the error for a missing vault.
    /// - Throws: ``CommandFailure`` for what is missing, and the error of a key file that cannot be used.
    func requireAll(hint: String = "") throws {
        try requireStore("vault", at: URL(POSIXPath(path)), hint: hint)
        _ = try loadKey(at: keyFileURL)
    }
}

/// The key in a key file that exists.
func loadKey(at url: URL) throws -> SymmetricKey {
    guard let key = try VaultKeyFile.load(at: url) else {
        throw CommandFailure("there is no key file at \(try POSIXPath(url))", .notFound)
    }
    return key
}

/// A secret on standard input.
enum SecretInput {
    /// The longest secret, as long as a value of a vault may be.
    private static let limit = 16 << 20

    /// Reads the secret: one line without echo from a terminal, all of standard input from anything else.
    ///
    /// One line feed at the end is removed.
    ///
    /// - Returns: The secret, which is not empty.
    /// - Throws: ``CommandFailure`` for input that is empty, longer than 16 MiB or not UTF-8, for a line that a
    ///   terminal may have cut short, and for a failed read.
    static func read() throws(CommandFailure) -> String {
        var bytes = isatty(STDIN_FILENO) == 1 ? try readHiddenLine() : try StandardInput.readToEnd(limit: limit)
        defer { bytes.resetBytes(in: bytes.startIndex..<bytes.endIndex) }
        let content = bytes.last == UInt8(ascii: "\n") ? bytes.dropLast() : bytes
        guard !content.isEmpty else { throw CommandFailure("there is no secret on standard input") }
        guard let text = String(validating: content, as: UTF8.self) else {
            throw CommandFailure("the secret on standard input is not UTF-8 text; encode it, with base64 for example")
        }
        return text
    }

    private static func readHiddenLine() throws(CommandFailure) -> Data {
        let echo = try TerminalEcho.turnOff()
        defer { echo.restore() }
        StandardError.write("Secret (not shown): ")
        return try StandardInput.readLine()
    }
}

// Memory safety: Both modes are written before the signal handlers are installed, never freed, and only read
// afterwards.

/// The echo of the terminal on standard input, turned off until ``restore()`` or until a signal ends the process.
struct TerminalEcho {
    /// The signals that end a process by default, except SIGKILL, which cannot be handled, and SIGPIPE, which this
    /// process ignores.
    private static let endingSignals: [CInt] = {
        let everywhere = [
            SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGALRM, SIGVTALRM, SIGPROF, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ, SIGABRT,
            SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP,
        ]
        #if os(Linux)
        return everywhere + [SIGIO, SIGPWR, SIGSTKFLT] + (__libc_current_sigrtmin()...__libc_current_sigrtmax())
        #else
        return everywhere + [SIGEMT]
        #endif
    }()

    /// The signal actions before the echo was turned off; a debugger or a crash reporter may handle some signals.
    private let earlierActions: [(number: CInt, action: sigaction)]

    /// Turns the echo off; line feeds are still shown.
    static func turnOff() throws(CommandFailure) -> TerminalEcho {
        guard unsafe tcgetattr(STDIN_FILENO, shownMode) == 0 else {
            throw CommandFailure("cannot read the mode of the terminal")
        }
        unsafe hiddenMode.pointee = shownMode.pointee
        unsafe hiddenMode.pointee.c_lflag &= ~tcflag_t(ECHO)
        unsafe hiddenMode.pointee.c_lflag |= tcflag_t(ECHONL)
        let echo = TerminalEcho(
            earlierActions: (endingSignals + [SIGTSTP]).map { number in
                var action = sigaction()
                unsafe sigaction(number, nil, &action)
                return (number, action)
            })
        for number in endingSignals { signal(number, restoreAndEnd) }
        signal(SIGTSTP, restoreAndStop)
        guard unsafe tcsetattr(STDIN_FILENO, TCSAFLUSH, hiddenMode) == 0 else {
            echo.restore()
            throw CommandFailure("cannot turn off the echo of the terminal")
        }
        return echo
    }

    func restore() {
        unsafe tcsetattr(STDIN_FILENO, TCSANOW, shownMode)
        for (number, action) in earlierActions {
            var action = action
            unsafe sigaction(number, &action, nil)
        }
    }
}

// Written before the signal handlers are installed, and only read afterwards. `tcsetattr`, `signal` and `raise` are
// async-signal-safe (POSIX.1, 2.4.3).
nonisolated(unsafe) private let shownMode = UnsafeMutablePointer<termios>.allocate(capacity: 1)
nonisolated(unsafe) private let hiddenMode = UnsafeMutablePointer<termios>.allocate(capacity: 1)

private let restoreAndEnd: @convention(c) (CInt) -> Void = { number in
    unsafe tcsetattr(STDIN_FILENO, TCSANOW, shownMode)
    signal(number, SIG_DFL)
    raise(number)
}

/// Stops the process with the echo on and turns it off again when the process continues.
private let restoreAndStop: @convention(c) (CInt) -> Void = { _ in
    unsafe tcsetattr(STDIN_FILENO, TCSANOW, shownMode)
    raise(SIGSTOP)
    unsafe tcsetattr(STDIN_FILENO, TCSANOW, hiddenMode)
}
