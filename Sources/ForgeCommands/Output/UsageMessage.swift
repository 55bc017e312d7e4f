import ArgumentParser

/// The usage error message, without the arguments of commands that may contain a secret.
struct UsageMessage {
    let text: String

    /// - Parameters:
    ///   - message: The message of the parser, which may quote arguments.
    ///   - arguments: The arguments of the process.
    init(_ message: String, arguments: some Sequence<String>) {
        let words = arguments.filter { !$0.hasPrefix("-") }
        let verbs = ForgeCommand.configuration.subcommands
        let verb = verbs.first { $0.configuration.commandName == words.first }
        let isHarmless = verb != nil && verb != SecretCommand.self || words.first == "help" || words.isEmpty
        // These messages contain only declared names.
        guard !isHarmless, !message.hasPrefix("Error: Missing ") else {
            text = Self.withoutCredentials(message)
            return
        }
        let subcommands = verb?.configuration.subcommands ?? []
        let command = subcommands.first { $0._commandName == words.dropFirst().first } ?? verb ?? ForgeCommand.self
        text = """
            Error: Wrong usage. The arguments are not repeated here, since one may be a secret; a secret is read from \
            standard input.
            Usage: \(ForgeCommand.usageString(for: command))
            """
    }

    /// The message without what comes before an `@` in its URLs: it may be a user and a password.
    private static func withoutCredentials(_ message: String) -> String {
        message.replacing(/(etcds?|s3):\/\/[^\s'"]*@/) { "\($0.1)://…@" }
    }
}
