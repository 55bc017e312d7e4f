import ArgumentParser
import ForgeStorage
import Foundation

/// Reads every store below a directory, verifies its checksums and reports damage; changes nothing.
struct CheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Verify every store below a directory and report damage.",
        discussion: """
            Nothing is created, changed or removed, and stores in use can be checked. Logs of key-value stores are \
            read record by record, cached images are decoded, other files are read completely (holes of sparse files \
            are skipped). Links, pipes, sockets and devices are listed and skipped. Temporary files are listed as in \
            use, or as orphaned if the process that recorded them has ended. A vault is opened with the key file if \
            you give one; without it, or if the vault is sealed under another key, only its header and length can be \
            verified.

            Long paths are shortened, except with --json. A directory whose path is too long for the system is \
            reported and not entered.

            Exit status: 0 if nothing is damaged, 1 if something is or if there is no store, 64 for a usage error.
            """)

    @Argument(help: ArgumentHelp("Where the stores are.", valueName: "dir"))
    var directory: String

    @Option(help: ArgumentHelp("The file that holds the vaults' key.", valueName: "file"))
    var keyFile: String?

    @Flag(help: "Print JSON.")
    var json = false

    func validate() throws {
        try requirePath(directory, of: "directory")
        try requirePath(keyFile, of: "key file")
    }

    func run() throws {
        let root = URL(fileURLWithPath: directory)
        try requireStore("directory", at: root, isDirectory: true)
        let progress = Progress("files checked")
        let key = try keyFile.map { try loadKey(at: URL(fileURLWithPath: $0)) }
        guard let findings = try StoreChecker(key: key, progress: progress).check(root) else {
            throw CommandFailure("no store here: \(try POSIXPath(root)) holds no files")
        }
        progress.finish()
        let damaged = findings.filter { $0.state == .damaged }
        if json {
            try StandardOutput.print(json: findings)
        } else {
            var table = TextTable([("Path", .left), ("Kind", .left), ("Bytes", .right), ("State", .left)])
            for finding in findings {
                let state = finding.state.rawValue
                let texts = finding.details.map { $0.shortenedInside(to: 300) }.joined(separator: "; ")
                let details = texts.isEmpty ? "" : " (\(texts))"
                table.add([finding.path.shortenedInside(to: 200), finding.kind, String(finding.bytes), state + details])
            }
            let skipped = findings.count { $0.state == .skipped }
            let summary = "\(findings.count - skipped) checked, \(damaged.count) damaged"
            try StandardOutput.print(table.lines + [skipped == 0 ? summary : "\(summary), \(skipped) skipped"])
        }
        if !damaged.isEmpty { throw ExitCode.failure }
    }
}
