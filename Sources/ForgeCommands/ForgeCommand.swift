public import ArgumentParser

/// The `forge` command: the demo, and commands that read, change, verify, copy, save and repair stores.
public struct ForgeCommand: AsyncParsableCommand {
    public static let configuration = CommandConfiguration(
        commandName: "forge",
        abstract: "Settings, files, secrets, sessions and caches on disk.",
        discussion: """
            Start with `forge demo`, which stores a value of each kind and shows where.

            With --json every verb prints JSON, one object per line; long verbs also print their progress, at most four \
            times a second, and a summary, and an error is an object with its code on standard error. Otherwise an error is \
            one line. Progress on a terminal is a line on standard error.

            Exit status: \(ExitStatus.allCases.map { "\($0.rawValue) \($0.meaning)" }.joined(separator: "; ")).

            `forge --generate-completion-script bash` prints completions for bash, and likewise for zsh and fish.
            """,
        version: "0.1.0-dev",
        subcommands: [
            DemoCommand.self, KVCommand.self, FileCommand.self, SecretCommand.self, CheckCommand.self,
            CopyCommand.self, ExportCommand.self, ImportCommand.self, BackupCommand.self, RestoreCommand.self,
            RepairCommand.self, WatchCommand.self, DiskUsageCommand.self,
            ServeCommand.self,
        ])

    public init() {}
}
