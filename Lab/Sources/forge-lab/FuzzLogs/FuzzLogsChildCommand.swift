import ArgumentParser
import Foundation
import SystemPackage

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
