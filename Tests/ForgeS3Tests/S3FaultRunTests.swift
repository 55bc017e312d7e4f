#if S3
import Foundation
import Testing

@testable import ForgeS3

@Suite("Loads from a server in S3 that fails at random")
struct S3FaultRunTests {
    /// How many loads must succeed, and the seed: larger runs are those of `.ci/nightly s3-faults`.
    private static let variables = ProcessInfo.processInfo.environment
    private static let loads = variables["FORGE_S3_FAULT_LOADS"].flatMap { Int($0) } ?? 300
    private static let seed = variables["FORGE_S3_FAULT_SEED"].flatMap { UInt64($0) } ?? .random(in: 0..<1_000_000)

    @Test("no load is torn, wrong or stale, and no upload is left after the sweep")
    func loads() async throws {
        print("faults of S3: \(Self.loads) loads, seed \(Self.seed)")
        let (tally, faults) = try await S3FaultRun(loads: Self.loads, seed: Self.seed).run()
        #expect(tally.wrong.isEmpty, "seed \(Self.seed)")
        #expect(tally.orphans == 0, "seed \(Self.seed)")
        #expect(tally.loads >= Self.loads)
        // The run has met every kind of fault, in case of a long run.
        if Self.loads >= 1_000 { #expect(faults?.counts.count == 11, "seed \(Self.seed)") }
        print(
            """
            faults of S3: \(tally.loads) loads, \(tally.wrong.count) wrong, \(tally.failedLoads) failed; \
            \(tally.saves) saves, \(tally.failedSaves) failed; \(tally.removed) uploads swept, \(tally.orphans) left; \
            \(faults?.requests ?? 0) requests, \(faults?.counts ?? [:])
            """)
    }

    @Test("a changed byte of a range, which no checksum covers, is found by the run")
    func planted() async throws {
        // Which requests meet the fault depends on the order of the tasks, so one run can miss it.
        for seed in Self.seed..<(Self.seed + 10) {
            let run = try S3FaultRun(loads: 800, seed: seed, oneOf: 4) { $0.path.hasPrefix("/b/ranged") }
            if try await !run.run().0.wrong.isEmpty { return }
        }
        Issue.record("ten runs from seed \(Self.seed) have not found the changed bytes")
    }
}
#endif
