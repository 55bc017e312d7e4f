import ArgumentParser
import ForgeStorage
import Foundation

/// Looks into a vault and changes it. A secret comes from standard input, never from an argument, which others can see.
struct SecretCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "secret", abstract: "Read and change a vault of secrets.",
        subcommands: [Get.self, Set.self, List.self, Remove.self])

    struct Get: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Write a secret to standard output.")

        @OptionGroup var vault: VaultArguments
        @Argument(help: "The name of the secret.") var name: String

        func run() throws {
            guard let secret = try vault.open(mustExist: true).get(CryptKey<String>(key: name)) else {
                throw CommandFailure("secret get \(name): there is no such secret in \(vault.path)")
            }
            print(secret)
        }
    }

    struct Set: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Store a secret, read as one line from standard input.",
            discussion: "The key file is made, readable by you alone, if there is none.")

        @OptionGroup var vault: VaultArguments
        @Argument(help: "The name of the secret.") var name: String

        func run() throws {
            guard let secret = readLine(strippingNewline: true) else {
                throw CommandFailure("secret set \(name): there was nothing on standard input")
            }
            try vault.open(mustExist: false).set(secret, for: CryptKey<String>(key: name))
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the names of the secrets.")

        @OptionGroup var vault: VaultArguments
        @Flag(help: "Print JSON.") var json = false

        func run() throws {
            let names = try vault.open(mustExist: true).keys().sorted()
            guard !json else { return try printJSON(names) }
            for name in names { print(name) }
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(commandName: "rm", abstract: "Remove a secret.")

        @OptionGroup var vault: VaultArguments
        @Argument(help: "The name of the secret.") var name: String

        func run() throws {
            let secrets = try vault.open(mustExist: true)
            guard try secrets.contains(CryptKey<String>(key: name)) else {
                throw CommandFailure("secret rm \(name): there is no such secret in \(vault.path)")
            }
            try secrets.delete(CryptKey<String>(key: name))
        }
    }
}

/// Where the vault and its key are.
struct VaultArguments: ParsableArguments {
    @Argument(help: "The file of the vault.") var path: String
    @Option(help: ArgumentHelp("The file that holds the vault's key.", valueName: "file"))
    var keyFile: String

    /// Opens the vault; a vault and a key are made only by a command that has something to put into it.
    func open(mustExist: Bool) throws -> VaultCrypt {
        let vault = URL(fileURLWithPath: path)
        let keyFile = URL(fileURLWithPath: keyFile)
        if mustExist {
            try requireExisting(vault, "vault")
            try requireExisting(keyFile, "key file")
        }
        return try VaultCrypt(at: vault, key: VaultKeyFile.loadOrCreate(at: keyFile))
    }
}
