import ArgumentParser
import Foundation

/// Opens stores on damaged and forged logs.
struct FuzzLogsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fuzz-logs", abstract: "Open key-value stores on damaged and forged logs.",
        discussion: """
            A store must open, or throw an error; must not serve a value that was not written under its name, unless the \
            bytes were forged; and must keep later writes. A case that traps or does not end is reported like any other. \
            To repeat a case, pass its number to --first, with --count 1.
            """)

    @Option(help: "The seed of all damage.") var seed: UInt64 = 1
    @Option(help: "The number of logs.") var count = 100_000
    @Option(help: "The number of the first log.") var first = 0
    @Option(help: "The number of processes.") var jobs = ProcessInfo.processInfo.activeProcessorCount

    func validate() throws {
        guard count > 0, first >= 0, jobs > 0 else { throw ValidationError("Count and jobs have to be positive.") }
    }

    /// The number of cases per child process.
    private static let portion = 25_000

    func run() async throws {
        let clock = ContinuousClock()
        let start = clock.now
        var tally = LogTally()
        try await withThrowingTaskGroup(of: LogTally.self) { group in
            let size = min(Self.portion, (count + jobs - 1) / jobs)
            var portions = stride(from: first, to: first + count, by: size).map { $0..<min($0 + size, first + count) }[
                ...]
            for portion in portions.prefix(jobs) { group.addTask { try await play(portion) } }
            portions = portions.dropFirst(jobs)
            while let played = try await group.next() {
                tally += played
                if let portion = portions.popFirst() { group.addTask { try await play(portion) } }
            }
        }
        let seconds = (clock.now - start) / .seconds(1)
        let rate = seconds > 0 ? Int(Double(tally.caseCount) / seconds) : tally.caseCount
        print("seed \(seed): \(tally.summary)")
        print("\(Int(seconds * 1000)) ms, \(rate) logs/s in \(jobs) processes")
        if tally.violationCount > 0 { throw ExitCode.failure }
    }

    /// Runs cases in a child process; a case that ends the process is counted, and the cases after it are run too.
    private func play(_ cases: Range<Int>) async throws -> LogTally {
        var tally = LogTally()
        var rest = cases
        while !rest.isEmpty {
            let outcome = try await LogChild(seed: seed, cases: rest).run()
            for line in outcome.lines {
                if let counted = LogTally(line: line) { tally += counted } else { print(line) }
            }
            guard let fatal = outcome.fatalCase else { break }
            tally.violationCount += 1
            // The counts of the cases before it are lost with the process.
            rest = fatal + 1..<max(rest.upperBound, fatal + 1)
        }
        return tally
    }
}

/// A child process that runs cases.
private struct LogChild {
    let seed: UInt64
    let cases: Range<Int>

    struct Outcome {
        var lines: [Substring]
        /// The case that ended the process.
        var fatalCase: Int?
    }

    func run() async throws -> Outcome {
        let progress = FileManager.default.temporaryDirectory.appendingPathComponent(
            "forge-fuzz-logs-\(UUID().uuidString)")
        let child = Process()
        child.executableURL = Bundle.main.executableURL
        child.arguments = [
            "fuzz-logs-child", progress.path, "--seed", "\(seed)", "--first", "\(cases.lowerBound)", "--count",
            "\(cases.count)",
        ]
        let pipe = Pipe()
        child.standardOutput = pipe
        let output = try await withCheckedThrowingContinuation { continuation in
            // A blocking wait would occupy a thread of the cooperative pool.
            DispatchQueue.global().async {
                continuation.resume(
                    with: Result {
                        try child.run()
                        return try pipe.fileHandleForReading.readToEnd() ?? Data()
                    })
            }
        }
        child.waitUntilExit()
        let noted = [UInt8](try Data(contentsOf: progress))
        try FileManager.default.removeItem(at: progress)
        var lines = String(decoding: output, as: UTF8.self).split(separator: "\n")
        guard child.terminationReason == .uncaughtSignal else { return Outcome(lines: lines) }
        let number = noted.count == 8 ? Int(noted.integer(at: 0, Int64.self)) : cases.lowerBound
        let reason =
            child.terminationStatus == SIGALRM ? "does not end" : "is killed by signal \(child.terminationStatus)"
        lines.append("seed \(seed), case \(number): \(reason)")
        return Outcome(lines: lines, fatalCase: number)
    }
}
