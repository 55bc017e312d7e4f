public import ArgumentParser

/// The `forge` command: the demo, and commands that read, change and verify stores.
public struct ForgeCommand: AsyncParsableCommand {
    public static let configuration = CommandConfiguration(
        commandName: "forge",
        abstract: "Settings, files, secrets, sessions and caches, stored for real.",
        discussion: "Start with `forge demo`: it stores a bit of everything and shows you where.",
        version: "0.1.0-dev",
        subcommands: [DemoCommand.self, KVCommand.self, FileCommand.self, SecretCommand.self, CheckCommand.self])

    public init() {}
}
