import ForgeStorageTesting
import Foundation

/// Many random programs, crashed, on one kind of store.
struct CrashCampaign {
    let kind: StoreKind
    private(set) var programCount = 0
    /// States that a crash of the program left.
    private(set) var stateCount = 0
    /// States that a crash during recovery left.
    private(set) var nestedStateCount = 0
    private(set) var exhaustiveCount = 0
    private(set) var violationCount = 0
    private(set) var duration = Duration.zero

    /// Crashes programs until that many states have been checked.
    ///
    /// - Parameters:
    ///   - kind: The store.
    ///   - states: How many states that crashes of programs leave are enough.
    ///   - seed: What the programs follow from.
    ///   - limit: How many states of one program are checked at most.
    ///   - tell: Is told of each program that broke a promise.
    /// - Returns: What was checked.
    /// - Throws: What a program throws while nothing crashes.
    static func run(
        on kind: StoreKind, states: Int, seed: UInt64, limit: Int, tell: (String) -> Void
    ) async throws -> CrashCampaign {
        switch kind {
        case .keyValue, .batches: try await run(KeyValueUnderCrash.self, kind, states, seed, limit, tell)
        case .file: try await run(FilesUnderCrash.self, kind, states, seed, limit, tell)
        case .secret: try await run(SecretsUnderCrash.self, kind, states, seed, limit, tell)
        case .codable: try await run(StorageUnderCrash.self, kind, states, seed, limit, tell)
        }
    }

    private static func run<Store: StoreUnderCrash>(
        _: Store.Type, _ kind: StoreKind, _ states: Int, _ seed: UInt64, _ limit: Int, _ tell: (String) -> Void
    ) async throws -> CrashCampaign {
        var campaign = CrashCampaign(kind: kind)
        var seeds = SplitMix64(seed: seed)
        let clock = ContinuousClock()
        let start = clock.now
        while campaign.stateCount < states {
            let programSeed = seeds.next()
            let program = Store.vocabulary.program(seed: programSeed)
            let depth = campaign.programCount.isMultiple(of: 4) ? 2 : 1
            do {
                let report = try await forEachCrash(
                    of: program, in: Store.self, limit: limit, seed: programSeed, depth: depth)
                campaign.add(report)
            } catch let failure as CrashFailure {
                campaign.add(failure.report)
                tell("\(kind.rawValue), program \(programSeed), \(program): \(failure)")
            }
        }
        campaign.duration = clock.now - start
        return campaign
    }

    private mutating func add(_ report: CrashReport) {
        programCount += 1
        stateCount += report.stateCount - report.nestedStateCount
        nestedStateCount += report.nestedStateCount
        exhaustiveCount += report.isExhaustive ? 1 : 0
        violationCount += report.violationCount
    }

    // MARK: The table

    static let heading = line([
        "store", "programs", "states", "nested", "exhaustive", "sampled", "violations", "seconds", "states/s",
    ])

    var row: String {
        let seconds = duration / .seconds(1)
        let speed = Double(stateCount + nestedStateCount) / max(seconds, 0.001)
        return Self.line([
            kind.rawValue, "\(programCount)", "\(stateCount)", "\(nestedStateCount)", "\(exhaustiveCount)",
            "\(programCount - exhaustiveCount)", "\(violationCount)", String(format: "%.1f", seconds),
            String(format: "%.0f", speed),
        ])
    }

    private static func line(_ cells: [String]) -> String {
        cells.map { String(repeating: " ", count: max(0, 11 - $0.count)) + $0 }.joined()
    }
}
