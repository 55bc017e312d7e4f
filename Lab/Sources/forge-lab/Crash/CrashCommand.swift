import ArgumentParser
import Foundation

/// Crashes the stores on disk in the middle of random programs, in every state that a power cut may leave.
struct CrashCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "crash", abstract: "Crash random programs on the stores and check what each recovers.",
        discussion: """
            Programs are made until enough different states were recovered from. Only those of crashes of the program \
            count; those of crashes during recovery, which every fourth program has too, come on top. Every state has \
            to open, hold what was acknowledged and nothing else, and take a write.
            """)

    @Option(help: "A store; one of each kind if none is given. Batches are in the programs of keyValue.") var store:
        [StoreKind] = []
    @Option(help: "How many states of each store are checked at least.") var states = 100_000
    @Option(help: "What all programs follow from.") var seed: UInt64 = 1
    @Option(help: "How many states of one program are checked at most, before a sample is taken.") var limit = 4000
    @Option(help: "How many programs are crashed at the same time; what is found does not depend on it.")
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
