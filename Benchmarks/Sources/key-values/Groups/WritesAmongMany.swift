import ForgeKVStore
import Measuring

/// Stores strings under random keys of 300,000.
struct WritesAmongMany {
    private static let count = 300_000
    private static let writes = 100_000

    private let workspace: Workspace

    init(_ workspace: Workspace) { self.workspace = workspace }

    /// The goal is MMKV's figure, measured on the same machine in the same hour.
    func line(_ goal: GoalLine.Goal) throws -> GoalLine {
        let samples = Samples<String>(Self.count)
        let store = try FileKVStore(at: workspace.place("set-many"))
        for (key, value) in zip(samples.keys, samples.values) { try store.set(key, value: value) }
        let contest = Contest()
        var generator = SystemRandomNumberGenerator()
        contest.add("FileKVStore", count: Self.writes) {
            for _ in 0..<Self.writes {
                let index = Int.random(in: 0..<Self.count, using: &generator)
                try store.set(samples.keys[index], value: samples.others[index])
            }
        }
        return GoalLine("set String among \(Self.count) keys", goal, try contest.run(runs: 7)[0])
    }
}
