/// Interleaves the runs of several measurements, so that a temporary slowdown of the machine affects all of them.
public final class Contest {
    private struct Contestant {
        let name: String
        let count: Int
        let body: () throws -> Void
    }

    private var contestants: [Contestant] = []

    public init() {}

    /// Adds a measurement; `body` performs `count` operations per run.
    public func add(_ name: String, count: Int, _ body: @escaping () throws -> Void) {
        contestants.append(Contestant(name: name, count: count, body: body))
    }

    /// Runs every measurement once to warm up and then `runs` times, interleaved in the order of addition.
    public func run(runs: Int) throws -> [Measurement] {
        let clock = ContinuousClock()
        var nanoseconds = [[Double]](repeating: [], count: contestants.count)
        for run in 0...runs {
            for (index, contestant) in contestants.enumerated() {
                let start = clock.now
                try contestant.body()
                let duration = clock.now - start
                if run > 0 { nanoseconds[index].append(duration / .nanoseconds(1) / Double(contestant.count)) }
            }
        }
        return zip(contestants, nanoseconds).map { Measurement($0.name, nanoseconds: $1) }
    }
}
