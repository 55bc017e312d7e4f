import Testing

/// Random calls on the disk and in memory, made by a process that is locked into a directory of its own.
@Suite(.serialized)
struct FuzzTests {
    private static let callsEach = 50_000

    @Test(
        "the file system in memory does as the disk does, whatever is called",
        arguments: [(1, false), (UInt64.random(in: 2...(.max)), false), (3, true), (.random(in: 4...(.max)), true)])
    func agrees(seed: UInt64, isConfined: Bool) throws {
        var arguments = ["fuzz", "--seed", "\(seed)", "--operations", "\(Self.callsEach)"]
        if isConfined { arguments.append("--confined") }
        let outcome = try LabProcess.run("forge-lab", arguments)
        #expect(outcome.status == 0, "\(outcome.output)")
        #expect(outcome.output.contains("\(Self.callsEach) calls on 125 trees, 0 differences"), "\(outcome.output)")
        print(outcome.output, terminator: "")
    }
}
