import CMeasuring

/// How long one operation takes, measured over several runs of many.
public struct Measurement: Sendable {
    public let name: String
    /// Nanoseconds for each operation, one figure for each run, in ascending order.
    public let nanoseconds: [Double]

    /// What was measured elsewhere: at least one figure, in any order.
    public init(_ name: String, nanoseconds: [Double]) {
        precondition(!nanoseconds.isEmpty, "nothing was measured")
        self.name = name
        self.nanoseconds = nanoseconds.sorted()
    }

    /// Runs `body`, which makes `count` operations, once to warm up and then `runs` times, each time on what `setUp`,
    /// which is not measured, has made.
    public init<Subject>(
        _ name: String, runs: Int = 15, count: Int, setUp: () throws -> Subject, _ body: (Subject) throws -> Void
    ) rethrows {
        let clock = ContinuousClock()
        try body(try setUp())
        let nanoseconds = try (0..<runs).map { _ in
            let subject = try setUp()
            let start = clock.now
            try body(subject)
            let duration = clock.now - start
            // It goes only now: that is not measured either.
            withExtendedLifetime(subject) {}
            return duration / .nanoseconds(1) / Double(count)
        }
        self.init(name, nanoseconds: nanoseconds)
    }

    /// Runs `body` once to warm up and then `runs` times; it makes `count` operations each time.
    public init(_ name: String, runs: Int = 15, count: Int, _ body: () throws -> Void) rethrows {
        try self.init(name, runs: runs, count: count, setUp: {}, body)
    }

    public var median: Double { nanoseconds[nanoseconds.count / 2] }
    public var fastest: Double { nanoseconds[0] }
    public var slowest: Double { nanoseconds[nanoseconds.count - 1] }
}

/// Keeps the compiler from leaving out what computes a value: it is shown to a function that might do anything with it.
@inline(never)
public func keep<Value>(_ value: Value) {
    withUnsafePointer(to: value) { measuring_keep($0) }
}
