import ArgumentParser
import Foundation
import SystemPackage

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

/// The child process of `fuzz-logs`; if it traps, a file contains the number of the case.
struct FuzzLogsChildCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fuzz-logs-child", abstract: "The part of fuzz-logs that opens the logs.", shouldDisplay: false)

    @Argument(help: "The file that receives the number of the current case.") var progress: String
    @Option var seed: UInt64
    @Option var first: Int
    @Option var count: Int

    /// The number of seconds after which a case counts as endless.
    private static let patience: UInt32 = 20

    /// The number of violations reported in full.
    private static let toldCount = 10

    func run() throws {
        let file = try FileDescriptor.open(
            FilePath(progress), .writeOnly, options: [.create], permissions: .ownerReadWrite)
        var tally = LogTally()
        for number in first..<first + count {
            _ = try withUnsafeBytes(of: number) { try file.writeAll(toAbsoluteOffset: 0, $0) }
            // Without a handler, the signal ends the process.
            alarm(Self.patience)
            let log = LogCase(seed: seed, number: number)
            do {
                var trial = LogTrial(log)
                tally.count(try trial.run(), isForged: log.isForged)
            } catch {
                tally.violationCount += 1
                guard tally.violationCount <= Self.toldCount else { continue }
                print("seed \(seed), case \(number)\(log.isForged ? ", forged" : ""): \(error)")
                for line in log.history { print("  \(line)") }
            }
        }
        alarm(0)
        try file.close()
        print(tally.line)
        if tally.violationCount > 0 { throw ExitCode.failure }
    }
}

/// Counts of the cases by outcome.
struct LogTally {
    private var counts = [Int](repeating: 0, count: LogTrial.Outcome.allCases.count)
    private var forgedCount = 0
    var violationCount = 0

    init() {}

    /// Parses the ``line`` that another process printed; nil if it is invalid.
    init?(line: some StringProtocol) {
        let numbers = line.split(separator: " ").compactMap { Int($0) }
        guard line.hasPrefix("tally "), numbers.count == counts.count + 2 else { return nil }
        counts = Array(numbers.prefix(counts.count))
        forgedCount = numbers[counts.count]
        violationCount = numbers[counts.count + 1]
    }

    var line: String { "tally " + (counts + [forgedCount, violationCount]).map(String.init).joined(separator: " ") }

    mutating func count(_ outcome: LogTrial.Outcome, isForged: Bool) {
        counts[outcome.rawValue] += 1
        if isForged { forgedCount += 1 }
    }

    static func += (tally: inout LogTally, other: LogTally) {
        for index in tally.counts.indices { tally.counts[index] += other.counts[index] }
        tally.forgedCount += other.forgedCount
        tally.violationCount += other.violationCount
    }

    private subscript(outcome: LogTrial.Outcome) -> Int { counts[outcome.rawValue] }

    var caseCount: Int { counts.reduce(violationCount, +) }

    /// A summary in words.
    var summary: String {
        "\(caseCount) logs, \(forgedCount) of them forged: \(self[.clean]) opened clean, \(self[.damaged]) with damage "
            + "told, \(self[.torn]) torn, \(self[.readOnly]) read-only, \(self[.refused]) refused; "
            + "\(violationCount) violations"
    }
}
