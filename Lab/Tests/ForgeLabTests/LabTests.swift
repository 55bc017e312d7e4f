import Foundation
import Testing

/// Runs of the lab's tools on the stores, as processes.
@Suite struct LabTests {
    @Test("the same seed gives the same log and the same tree in every process")
    func determinism() throws {
        var outputs: Set<String> = []
        for _ in 0..<5 {
            let run = try LabProcess.run("forge-lab", ["determinism", "--seed", "7", "--operations", "500"])
            #expect(run.status == 0)
            outputs.insert(run.output)
        }
        #expect(outputs.count == 1, "\(outputs)")
        let other = try LabProcess.run("forge-lab", ["determinism", "--seed", "8", "--operations", "500"])
        #expect(!outputs.contains(other.output))
    }

    @Test("crashing several programs in parallel gives the same results as in sequence")
    func crashJobs() throws {
        func counts(jobs: Int) throws -> [[Substring]] {
            let arguments = ["crash", "--store", "keyValue", "--states", "300", "--limit", "60", "--jobs", "\(jobs)"]
            let run = try LabProcess.run("forge-lab", arguments)
            #expect(run.status == 0, "\(run.output)")
            // All columns but the last two, which contain durations.
            return run.output.split(separator: "\n").map { $0.split(separator: " ").dropLast(2) }
        }
        let expected = try counts(jobs: 1)
        #expect(expected.count == 2)
        for _ in 0..<2 { #expect(try counts(jobs: 4) == expected) }
    }
}
