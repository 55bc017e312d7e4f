import ArgumentParser

/// Runs a workload derived from a seed and prints a hash of all results.
struct DeterminismCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "determinism",
        abstract: "Run a workload in memory and print a hash of every result and of the tree it leaves.",
        discussion: "The same seed gives the same line in every process, or something depends on chance.")

    @Option(help: "The seed of the workload.") var seed: UInt64 = 0
    @Option(help: "The number of operations of each kind.") var operations = 2_000
    @Flag(help: "Also print every result.") var log = false

    func run() async throws {
        let outcome = try await DeterminismWorkload(seed: seed, count: operations).run()
        if log { for line in outcome.log { print(line) } }
        print("seed \(seed): log \(outcome.logHash.hexadecimal), tree \(outcome.treeHash.hexadecimal)")
    }
}

extension UInt64 {
    fileprivate var hexadecimal: String {
        let digits = String(self, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}
