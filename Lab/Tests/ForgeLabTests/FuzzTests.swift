import Testing

/// Random calls on disk and in memory, by processes confined to directories of their own.
struct FuzzTests {
    private static let callsEach = 100_000

    @Test(
        "the in-memory file system behaves as the one on disk for random calls",
        arguments: [(1, false), (UInt64.random(in: 2...(.max)), false), (3, true), (.random(in: 4...(.max)), true)])
    func agrees(seed: UInt64, isConfined: Bool) throws {
        var arguments = ["fuzz", "--seed", "\(seed)", "--operations", "\(Self.callsEach)"]
        if isConfined { arguments.append("--confined") }
        let outcome = try LabProcess.run("forge-lab", arguments)
        #expect(outcome.status == 0, "\(outcome.output)")
        #expect(outcome.output.contains("\(Self.callsEach) calls on 250 trees, 0 differences"), "\(outcome.output)")
        print(outcome.output, terminator: "")
        // Random calls prove little if most of them fail.
        let succeeded = outcome.output.split(separator: "\n").last?.split(separator: " ").first.flatMap { Double($0) }
        #expect((succeeded ?? 0) > 40, "\(outcome.output)")
    }
}
