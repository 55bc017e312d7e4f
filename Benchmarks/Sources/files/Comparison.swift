import Measuring

/// Interleaves the runs of several measurements, so that a temporary slowdown of the machine affects all of them.
struct Comparison {
    typealias Body = () async throws -> Void

    private var contestants: [(name: String, count: Int, body: Body)] = []

    /// Adds a measurement; `body` performs `count` operations per run. The first is the reference.
    mutating func add(_ name: String, count: Int, _ body: @escaping Body) {
        contestants.append((name, count, body))
    }

    /// Runs every measurement once to warm up and then `runs` times.
    func run(_ runs: Int) async throws -> [Measurement] {
        var nanoseconds = [[Double]](repeating: [], count: contestants.count)
        for run in 0...runs {
            for (index, contestant) in contestants.enumerated() {
                let start = ContinuousClock.now
                try await contestant.body()
                let duration = ContinuousClock.now - start
                if run > 0 { nanoseconds[index].append(duration / .nanoseconds(1) / Double(contestant.count)) }
            }
        }
        return zip(contestants, nanoseconds).map { Measurement($0.name, nanoseconds: $1) }
    }

    /// A line for the second measurement, with its ratio to the first; all others are peers.
    func line(_ goal: GoalLine.Goal, runs: Int = 9) async throws -> GoalLine {
        let found = try await run(runs)
        return GoalLine(
            found[1].name, goal, found[1], reference: found[0],
            peers: [.init(found[0], reference: nil)] + found[2...].map { .init($0, reference: found[0]) })
    }
}
