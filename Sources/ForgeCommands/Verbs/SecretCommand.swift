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
            let names = try vault.open().keys().sorted()
            guard !output.json else { return try names.forEach { try StandardOutput.print(line: ["name": $0]) } }
            try StandardOutput.print(names)
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

    private var keyFileURL: URL { URL(fileURLWithPath: keyFile) }

    func validate() throws {
        try requirePath(path, of: "vault")
        try requirePath(keyFile, of: "key file")
    }

    /// Opens an existing vault with an existing key file, for reading.
    func open() throws -> VaultCrypt {
        try requireStore("vault", at: URL(fileURLWithPath: path))
        let key = try loadKey(at: keyFileURL)
        return try VaultCrypt(at: URL(fileURLWithPath: path), key: key)
    }

    /// Opens the vault with a key that is durable, creating the key file if it is missing.
    func openForWriting() throws -> VaultCrypt {
        try VaultCrypt(at: URL(fileURLWithPath: path), key: VaultKeyFile.loadOrCreate(at: keyFileURL))
    }

    /// Whether the vault exists.
    func exists() throws -> Bool { try storeExists(at: URL(fileURLWithPath: path)) }

    /// Throws unless vault and key file exist, so that a mistyped path creates neither.
    ///
    /// - Parameter hint: Text appended to the error for a missing vault.
    /// - Throws: ``CommandFailure`` for what is missing, and the error of a key file that cannot be used.
    func requireAll(hint: String = "") throws {
        try requireStore("vault", at: URL(fileURLWithPath: path), hint: hint)
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
