import ArgumentParser
import ForgeStorage
import Foundation
import SystemPackage

/// Verifies a backup and copies its stores to a new directory.
struct RestoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Copy the stores of a backup to a new directory.",
        discussion: """
            All files of the backup are compared with its manifest before anything is written, and again while they are \
            copied. The stores appear at the destination when all of them are complete and flushed; nothing that exists \
            is replaced. An unfinished or altered backup is refused.
            """)

    @Argument(help: "The directory of the backup.")
    var backup: String

    @Argument(help: "The directory of the stores, which must not exist, or be empty.")
    var destination: String

    @Flag(name: [.short, .long], help: "Only verify the backup.")
    var dryRun = false

    @OptionGroup var output: JSONOption

    func validate() throws {
        try requirePath(backup, of: "backup")
        try requirePath(destination, of: "destination")
    }

    func run() throws {
        let url = URL(fileURLWithPath: backup)
        try requireStore("backup", at: url, isDirectory: true)
        Interruption.endInOrder()
        let report = BackupReport(dryRun ? "verified" : "restored", json: output.json)
        defer { report.progress.finish() }
        let source = try POSIXPath(url)
        report.progress.expect(try verify(source))
        if dryRun {
            try BackupManifestReader(of: source).forEach { try report.count(bytes: $0.bytes) }
        } else {
            try copy(source, report)
        }
        try report.finish(destination)
    }

    /// Compares all files with the manifest.
    private func verify(_ backup: POSIXPath) throws -> Progress.Amount {
        var total = Progress.Amount()
        try BackupManifestReader(of: backup).forEach { file in
            let path = try Self.path(of: file)
            let content = try HashedCopy().content(of: backup.appending(BackupManifest.content).appending(path))
            try Self.require(content, as: file)
            total.items += 1
            total.bytes += content.bytes
        }
        return total
    }

    private func copy(_ backup: POSIXPath, _ report: BackupReport) throws {
        let fileSystem = SystemFileSystem()
        let staged = try StagedDirectory(for: try POSIXPath(URL(fileURLWithPath: destination)))
        let root = staged.path
        let flush = BulkFlush()
        try BackupManifestReader(of: backup).forEach { file in
            let path = try Self.path(of: file)
            let target = root.appending(path)
            try fileSystem.createDirectories(
                target.splitLast().parent, at: .workingDirectory, permissions: .ownerReadWriteExecute, resolution: [])
            try flush.include(target.splitLast().parent)
            let copied = try HashedCopy().copy(backup.appending(BackupManifest.content).appending(path), to: target)
            try Self.require(copied.content, as: file)
            try fileSystem.setPermissions(
                FilePermissions(rawValue: CModeT(file.permissions & 0o777)), of: .path(target))
            try report.count(bytes: copied.content.bytes)
        }
        try flush.finish()
        try staged.place()
    }

    private static func require(_ content: HashedCopy.Content, as file: BackupManifest.File) throws {
        guard content == HashedCopy.Content(bytes: file.bytes, sha256: file.sha256) else {
            throw CommandFailure("\(file.path) in the backup is altered or damaged; nothing was restored")
        }
    }

    /// The path of a file below the destination; an altered manifest must not lead out of it.
    private static func path(of file: BackupManifest.File) throws -> POSIXPath {
        let components = file.path.split(separator: "/", omittingEmptySubsequences: false)
        guard !components.contains(where: { $0.isEmpty || $0 == "." || $0 == ".." }), !file.path.utf8.contains(0) else {
            throw CommandFailure("the manifest contains a path that leads out of the backup")
        }
        return POSIXPath(file.path)
    }
}
