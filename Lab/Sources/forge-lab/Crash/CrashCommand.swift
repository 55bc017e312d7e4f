import ArgumentParser
import ForgeCrashTesting
import Foundation

/// Crashes the stores on disk during random programs, in every state that a power cut may leave.
struct CrashCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "crash", abstract: "Crash random programs on the stores and check what each recovers.",
        discussion: """
            Programs are made until enough different states of crashes were recovered from, and as many of crashes after \
            a kill: the process is killed, started again on what it had not synchronised, and loses power. States of \
            crashes during the recovery from a power cut come on top. Every state has to open, hold what was \
            acknowledged and nothing else, and take further calls.
            """)

    @Option(help: "A store; all kinds if omitted.") var store: [StoreKind] = []
    @Option(help: "The minimum number of states checked per store, and as many after kills.") var states = 100_000
    @Option(help: "The seed of all programs.") var seed: UInt64 = 1
    @Option(help: "The number of states per program above which only a sample is checked.") var limit = 4000
    @Option(help: "The number of programs crashed in parallel; the results do not depend on it.")
    var jobs = ProcessInfo.processInfo.activeProcessorCount

    func validate() throws {
        guard states > 0, limit > 0, jobs > 0 else {
            throw ValidationError("States, limit and jobs have to be positive.")
        }
    }

    func run() async throws {
        var isClean = true
        print(CrashCampaign.heading)
        for kind in store.isEmpty ? StoreKind.allCases : store {
            let campaign = try await CrashCampaign.run(
                on: kind, states: states, seed: seed, limit: limit, jobs: jobs
            ) { failure in
                FileHandle.standardError.write(Data((failure + "\n").utf8))
            }
            print(campaign.row)
            isClean = isClean && campaign.violationCount == 0
        }
        if !isClean { throw ExitCode.failure }
    }
}
