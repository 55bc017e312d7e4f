import ArgumentParser
import Foundation

/// Damages logs in every way that comes to mind, and opens stores on them.
struct FuzzLogsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fuzz-logs", abstract: "Open key-value stores on damaged and forged logs.",
        discussion: """
            A store has to open, or to refuse with an error; to serve nothing that was not written under its name, unless \
            the bytes were forged; and to keep what is set then. A case that traps or does not end is told like any other: \
            --first with its number and --count 1 make it again.
            """)

    @Option(help: "What all damage follows from.") var seed: UInt64 = 1
    @Option(help: "How many logs.") var count = 100_000
    @Option(help: "The number of the first.") var first = 0
    @Option(help: "How many processes.") var jobs = ProcessInfo.processInfo.activeProcessorCount

    func validate() throws {
        guard count > 0, first >= 0, jobs > 0 else { throw ValidationError("Count and jobs have to be positive.") }
    }

    /// So many cases are given to a process at a time.
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

    /// Plays cases in a process of their own; one that takes the process down counts, and those behind it are played
    /// too.
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
            // What was counted before it is lost with the process.
            rest = fatal + 1..<max(rest.upperBound, fatal + 1)
        }
        return tally
    }
}

/// A process that plays cases.
private struct LogChild {
    let seed: UInt64
    let cases: Range<Int>

    struct Outcome {
        var lines: [Substring]
        /// The case that took the process down.
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
            // Waiting is no work for the threads that tasks share.
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
