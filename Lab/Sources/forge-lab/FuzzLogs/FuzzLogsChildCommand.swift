import ArgumentParser
import Foundation
import SystemPackage

/// What `fuzz-logs` starts: if it traps, the number of the case is left in a file.
struct FuzzLogsChildCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fuzz-logs-child", abstract: "The part of fuzz-logs that opens the logs.", shouldDisplay: false)

    @Argument(help: "Where to note the number of the case that is under way.") var progress: String
    @Option var seed: UInt64
    @Option var first: Int
    @Option var count: Int

    /// How many seconds a case may take before it counts as endless.
    private static let patience: UInt32 = 20

    /// So many violations are told in full.
    private static let toldCount = 10

    func run() throws {
        let file = try FileDescriptor.open(
            FilePath(progress), .writeOnly, options: [.create], permissions: .ownerReadWrite)
        var tally = LogTally()
        for number in first..<first + count {
            _ = try withUnsafeBytes(of: number) { try file.writeAll(toAbsoluteOffset: 0, $0) }
            // Nobody handles the signal: it ends the process.
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
