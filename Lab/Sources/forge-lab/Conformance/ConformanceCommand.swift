import ArgumentParser
import ForgeStorageTesting
import Foundation

/// Runs the published checks on every store of the package.
struct ConformanceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "conformance",
        abstract: "Run every published check on every store, and print a table.",
        discussion: """
            Each check gets a new store: in memory, or in a directory of its own below DIR, which is removed again. The \
            exit status is 1 if a promise was broken, or if a store was held to none.
            """)

    @Option(help: ArgumentHelp("The parent directory of stores on disk; temporary by default.", valueName: "dir"))
    var directory: String?

    @Flag(help: "List the checks that do not apply, with reasons.") var reasons = false

    func run() async throws {
        let place = try LabDirectory(in: directory)
        defer { place.remove() }
        var reports: [ConformanceReport] = []
        print(ConformanceTable.header)
        for run in ConformanceRuns(place: place).all {
            let report = await run()
            print(ConformanceTable.line(report))
            reports.append(report)
        }
        for report in reports {
            for result in report.violations { print("\(report.subject), \(report.suite):\n\(result)") }
            guard reasons else { continue }
            for result in report.notApplicable { print("\(report.subject), \(report.suite):\n\(result)") }
        }
        let violated = reports.reduce(0) { $0 + $1.violations.count }
        print("\(reports.reduce(0) { $0 + $1.passedCount }) passed, \(violated) violated")
        if !reports.allSatisfy(\.holds) { throw ExitCode.failure }
    }
}

/// The table of results of each suite on each store.
private enum ConformanceTable {
    static let header = columns("suite", "store", "passed", "violated", "not applicable")

    static func line(_ report: ConformanceReport) -> String {
        columns(
            report.suite, report.subject, "\(report.passedCount)", "\(report.violations.count)",
            "\(report.notApplicable.count)")
    }

    private static func columns(
        _ suite: String, _ subject: String, _ passed: String, _ violated: String, _ notApplicable: String
    ) -> String {
        padded(suite, 40) + padded(subject, 44) + padded(passed, 8) + padded(violated, 10) + notApplicable
    }

    private static func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(1, width - text.count))
    }
}
