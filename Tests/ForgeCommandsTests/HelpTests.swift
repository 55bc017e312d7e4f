import ArgumentParser
import Foundation
import Testing

@testable import ForgeCommands

/// Pins the help texts, which users rely on like on the commands.
struct HelpTests {
    private static let commands: [(name: String, type: any ParsableCommand.Type)] = [
        ("forge", ForgeCommand.self), ("forge-demo", DemoCommand.self), ("forge-check", CheckCommand.self),
        ("forge-kv", KVCommand.self), ("forge-kv-get", KVCommand.Get.self), ("forge-kv-set", KVCommand.Set.self),
        ("forge-kv-list", KVCommand.List.self), ("forge-kv-rm", KVCommand.Remove.self),
        ("forge-file", FileCommand.self), ("forge-file-get", FileCommand.Get.self),
        ("forge-file-set", FileCommand.Set.self), ("forge-file-list", FileCommand.List.self),
        ("forge-file-rm", FileCommand.Remove.self), ("forge-secret", SecretCommand.self),
        ("forge-secret-get", SecretCommand.Get.self), ("forge-secret-set", SecretCommand.Set.self),
        ("forge-copy", CopyCommand.self), ("forge-backup", BackupCommand.self), ("forge-restore", RestoreCommand.self),
        ("forge-repair", RepairCommand.self), ("forge-watch", WatchCommand.self), ("forge-du", DiskUsageCommand.self),
        ("forge-secret-list", SecretCommand.List.self), ("forge-secret-rm", SecretCommand.Remove.self),
        ("forge-serve", ServeCommand.self),
    ]

    @Test("a command's help matches the pinned file", arguments: commands.map(\.name))
    func isPinned(name: String) throws {
        let command = try #require(Self.commands.first { $0.name == name }?.type)
        let help = ForgeCommand.helpMessage(for: command, columns: 100)
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("Help/\(name).txt")
        // To change a pinned text, run the tests with FORGE_PIN_HELP=1 and review the difference.
        if ProcessInfo.processInfo.environment["FORGE_PIN_HELP"] != nil {
            try Data(help.utf8).write(to: file)
        }
        #expect(try String(contentsOf: file, encoding: .utf8) == help)
    }
}
