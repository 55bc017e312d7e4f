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
            use, or as orphaned if the process that recorded them has ended. Vaults are opened with the key files that \
            you give; without one, only their headers and lengths can be verified. A vault that none of them opens is \
            not verified: it is sealed under another key, or its header was changed.

            Long paths are shortened, except with --json, which prints a finding per line and at the end a summary. A \
            directory whose path is too long for the system is reported and not entered.

            Exit status: 0 if nothing is damaged, 1 if something is or if none of the given keys opens a vault, 4 if there \
            is no store, 64 for a usage error.
            """)

    @OptionGroup var stores: CheckedDirectory

    @OptionGroup var output: JSONOption

    private struct Summary: Encodable {
        let type = "summary"
        let checked: Int
        let damaged: Int
        let unverified: Int
        let skipped: Int
    }

    func run() throws {
        let findings = try stores.findings(json: output.json)
        let damaged = findings.count { $0.state == .damaged }
        let unverified = findings.count { $0.state == .unverified }
        let skipped = findings.count { $0.state == .skipped }
        if output.json {
            for finding in findings { try StandardOutput.print(line: finding) }
            try StandardOutput.print(
                line: Summary(
                    checked: findings.count - skipped, damaged: damaged, unverified: unverified, skipped: skipped))
        } else {
            var table = TextTable([("Path", .left), ("Kind", .left), ("Bytes", .right), ("State", .left)])
            for finding in findings {
                let state = finding.state.rawValue
                let texts = finding.details.map { $0.shortenedInside(to: 300) }.joined(separator: "; ")
                let details = texts.isEmpty ? "" : " (\(texts))"
                table.add([finding.path.shortenedInside(to: 200), finding.kind, String(finding.bytes), state + details])
            }
            var summary = "\(findings.count - skipped) checked, \(damaged) damaged"
            if unverified > 0 { summary += ", \(unverified) not verified" }
            if skipped > 0 { summary += ", \(skipped) skipped" }
            try StandardOutput.print(table.lines + [summary])
        }
        if damaged + unverified > 0 { throw ExitCode.failure }
    }
}
