import ArgumentParser
import Foundation

extension StoreKind: ExpressibleByArgument {}

/// Writes to a store and tells each acknowledged write on standard output, until it is killed.
struct AcknowledgeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "acknowledge", abstract: "Write numbered values, printing each number once it is acknowledged.")

    @Argument(help: "The kind of store.") var kind: StoreKind
    @Argument(help: "The directory of the store.") var directory: String
    @Option(help: "How many values to write.") var count = 10_000
    @Option(help: "The first number.") var from = 0

    func run() async throws {
        let workload = try KillWorkload(kind, directory: URL(fileURLWithPath: directory))
        for number in from..<from + count {
            try await workload.store.save(KillWorkload.value(number), KillWorkload.key(number))
            // Unbuffered: what was told before the kill has reached the pipe.
            FileHandle.standardOutput.write(Data("\(number)\n".utf8))
        }
    }
}

/// Opens a store after a kill and looks for what was lost, torn or made up.
struct VerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify", abstract: "Check a store against the last number that was acknowledged.")

    @Argument(help: "The kind of store.") var kind: StoreKind
    @Argument(help: "The directory of the store.") var directory: String
    @Option(help: "The last acknowledged number, -1 for none.") var acknowledged: Int

    func run() async throws {
        let workload = try KillWorkload(kind, directory: URL(fileURLWithPath: directory))
        let violations = try await workload.violations(acknowledged: acknowledged)
        for violation in violations { print(violation) }
        if !violations.isEmpty { throw ExitCode.failure }
    }
}
