import Testing

/// Stores opened on damaged and forged logs, in processes that may trap.
struct LogFuzzTests {
    @Test(
        "no damaged log makes a store trap, return values that were never written, or lose later writes",
        arguments: [1, UInt64.random(in: 2...(.max))])
    func logs(seed: UInt64) throws {
        let outcome = try LabProcess.run("forge-lab", ["fuzz-logs", "--seed", "\(seed)", "--count", "1500"])
        #expect(outcome.status == 0, "\(outcome.output)")
        #expect(outcome.output.contains("seed \(seed): 1500 logs, "), "\(outcome.output)")
        #expect(outcome.output.contains("; 0 violations"), "\(outcome.output)")
        print(outcome.output, terminator: "")
    }
}
