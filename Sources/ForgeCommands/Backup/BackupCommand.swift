import ArgumentParser
import ForgeStorage
import Foundation

/// Copies all stores below a directory, consistently, while apps write to them.
struct BackupCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup", abstract: "Copy all stores below a directory while apps write to them.",
        discussion: """
            A key-value store is saved in a state that it had; its log in the backup has no outdated records. Each other \
            file, of a file store, a vault or a cache, is saved as it was at one moment, whatever its name. Files that \
            only running processes of a store need (journals, temporary files that it has recorded) are left out. Links, \
            pipes, sockets and devices are listed and left out.

            The backup is written to .NAME.partial beside the destination NAME, flushed, given a manifest with the size \
            and SHA-256 of each file, and then renamed, so an unfinished backup is never taken for a finished one. The \
            next backup to the same destination removes what an interrupted one left.

            Exit status: 2 if a file could not be saved, or a store is damaged; the backup contains everything else.
            """)

    @Argument(help: ArgumentHelp("The directory that contains the stores.", valueName: "dir"))
    var directory: String

    @Argument(help: "The directory of the backup, which must not exist, or be empty.")
    var destination: String

    @OptionGroup var output: JSONOption

    func validate() throws {
        try requirePath(directory, of: "directory")
        try requirePath(destination, of: "destination")
    }

    func run() throws {
        let (from, to) = (URL(fileURLWithPath: directory), URL(fileURLWithPath: destination))
        try requireStore("directory", at: from, isDirectory: true)
        guard try !Ancestry(of: POSIXPath(from)).contains(Ancestry(of: POSIXPath(to))) else { throw overlap }
        Interruption.endInOrder()
        let report = BackupReport("saved", json: output.json)
        defer { report.progress.finish() }
        let staged = try StagedDirectory(for: try POSIXPath(to))
        var writer = try BackupWriter(try POSIXPath(from), to: staged.path, report)
        do {
            try writer.run()
        } catch is FileWalk.ContainsOther {
            throw overlap  // Through a bind mount.
        }
        try staged.place()
        try report.finish(destination)
    }

    private var overlap: CommandFailure { CommandFailure("\(destination) is in \(directory)", .usage) }
}
