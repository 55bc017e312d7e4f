import ArgumentParser
import ForgeCrashTesting
import ForgeStorageTesting
import Foundation
import StoreCrashes

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

/// The stores on disk that a campaign crashes.
enum StoreKind: String, CaseIterable, ExpressibleByArgument {
    case keyValue, sharedKeyValue, file, secret, codable, image
}

/// Crashes many random programs on one kind of store.
struct CrashCampaign {
    let kind: StoreKind
    private(set) var programCount = 0
    /// States left by a crash of a program.
    private(set) var stateCount = 0
    /// States left by a crash during the recovery from a power cut.
    private(set) var nestedStateCount = 0
    /// Kills followed by a restart of the program.
    private(set) var killCount = 0
    /// States left by a crash after such a kill.
    private(set) var stateCountAfterKills = 0
    private(set) var exhaustiveCount = 0
    private(set) var violationCount = 0
    private(set) var duration = Duration.zero

    /// Crashes programs until `states` states have been checked, and as many after kills.
    ///
    /// - Parameters:
    ///   - Parameters:
    ///   - kind: The store.
    ///   - states: The minimum number of states, for crashes of programs and for crashes after kills each.
    ///   - seed: The seed of all programs.
    ///   - limit: The maximum number of states checked per program.
    ///   - jobs: The number of programs crashed in parallel; the results do not depend on it.
    ///   - tell: Called for each program that violated a promise, in the order of the programs.
    /// - Returns: The counts of checked states.
    /// - Throws: The error of a program that fails without a crash.
    static func run(
        on kind: StoreKind, states: Int, seed: UInt64, limit: Int, jobs: Int, tell: (String) -> Void
    ) async throws -> CrashCampaign {
        var campaign = CrashCampaign(kind: kind)
        let clock = ContinuousClock()
        let start = clock.now
        switch kind {
        case .keyValue: try await campaign.run(KeyValueUnderCrash.self, states, seed, limit, jobs, tell)
        case .sharedKeyValue: try await campaign.run(SharedKeyValueUnderCrash.self, states, seed, limit, jobs, tell)
        case .file: try await campaign.run(FilesUnderCrash.self, states, seed, limit, jobs, tell)
        case .secret: try await campaign.run(SecretsUnderCrash.self, states, seed, limit, jobs, tell)
        case .codable: try await campaign.run(StorageUnderCrash.self, states, seed, limit, jobs, tell)
        case .image: try await campaign.run(ImagesUnderCrash.self, states, seed, limit, jobs, tell)
        }
        campaign.duration = clock.now - start
        return campaign
    }

    /// The result of one program.
    private struct Outcome: Sendable {
        let number: Int
        let report: CrashReport
        var failure: String?
    }

    /// Results are added in program order, regardless of which program ends first; programs still running once there
    /// are enough states are not counted.
    private mutating func run<Store: StoreUnderCrash & SendableMetatype>(
        _: Store.Type, _ states: Int, _ seed: UInt64, _ limit: Int, _ jobs: Int, _ tell: (String) -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Outcome.self) { group in
            var seeds = SplitMix64(seed: seed)
            for number in 0..<jobs {
                let seed = seeds.next()
                group.addTask { try await Self.crash(Store.self, number, seed, limit) }
            }
            var nextNumber = jobs
            var waiting: [Int: Outcome] = [:]
            while let outcome = try await group.next() {
                waiting[outcome.number] = outcome
                while !hasEnough(states), let next = waiting.removeValue(forKey: programCount) {
                    add(next.report)
                    if let failure = next.failure { tell("\(kind.rawValue), \(failure)") }
                }
                guard !hasEnough(states) else { break }
                let (number, seed) = (nextNumber, seeds.next())
                nextNumber += 1
                group.addTask { try await Self.crash(Store.self, number, seed, limit) }
            }
            group.cancelAll()
        }
    }

    private static func crash<Store: StoreUnderCrash>(
        _: Store.Type, _ number: Int, _ seed: UInt64, _ limit: Int
    ) async throws -> Outcome {
        let program = Store.vocabulary.program(seed: seed)
        do {
            let report = try await forEachCrash(of: program, in: Store.self, limit: limit, seed: seed)
            return Outcome(number: number, report: report)
        } catch let failure as CrashFailure {
            return Outcome(
                number: number, report: failure.report, failure: "program \(seed), \(program): \(failure)")
        }
    }

    private func hasEnough(_ states: Int) -> Bool { min(stateCount, stateCountAfterKills) >= states }

    private mutating func add(_ report: CrashReport) {
        programCount += 1
        stateCount += report.stateCount - report.nestedStateCount - report.stateCountAfterKills
        nestedStateCount += report.nestedStateCount
        killCount += report.killCount
        stateCountAfterKills += report.stateCountAfterKills
        exhaustiveCount += report.isExhaustive && report.isExhaustiveAfterKills ? 1 : 0
        violationCount += report.violationCount
    }

    // MARK: The table

    static let heading = line([
        "store", "programs", "states", "nested", "kills", "after kills", "exhaustive", "sampled", "violations",
        "seconds",
        "states/s",
    ])

    var row: String {
        let seconds = duration / .seconds(1)
        let speed = Double(stateCount + nestedStateCount + stateCountAfterKills) / max(seconds, 0.001)
        return Self.line([
            kind.rawValue, "\(programCount)", "\(stateCount)", "\(nestedStateCount)", "\(killCount)",
            "\(stateCountAfterKills)", "\(exhaustiveCount)", "\(programCount - exhaustiveCount)", "\(violationCount)",
            String(format: "%.1f", seconds),
            String(format: "%.0f", speed),
        ])
    }

    private static func line(_ cells: [String]) -> String {
        cells.map { String(repeating: " ", count: max(0, 12 - $0.count)) + $0 }.joined()
    }
}
