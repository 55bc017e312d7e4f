public import ArgumentParser

/// The `forge` command: the demo, and commands that read, change and verify stores.
public struct ForgeCommand: AsyncParsableCommand {
    public static let configuration = CommandConfiguration(
        commandName: "forge",
        abstract: "Settings, files, secrets, sessions and caches on disk.",
        discussion: "Start with `forge demo`, which stores a value of each kind and shows where.",
        version: "0.1.0-dev",
        subcommands: [DemoCommand.self, KVCommand.self, FileCommand.self, SecretCommand.self, CheckCommand.self])

    public init() {}
}
