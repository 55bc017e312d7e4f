import CMeasuring

/// The time per operation, measured over several runs of many operations.
public struct Measurement: Sendable {
    public let name: String
    /// Nanoseconds per operation, a figure per run, in ascending order.
    public let nanoseconds: [Double]

    /// Creates a measurement from at least one figure, in any order.
    public init(_ name: String, nanoseconds: [Double]) {
        precondition(!nanoseconds.isEmpty, "nothing was measured")
        self.name = name
        self.nanoseconds = nanoseconds.sorted()
    }

    /// Runs `body`, which performs `count` operations, once to warm up and then `runs` times. `setUp` makes a subject
    /// for each run; it is not measured.
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
            // Released only now, so that its destruction is not measured.
            withExtendedLifetime(subject) {}
            return duration / .nanoseconds(1) / Double(count)
        }
        self.init(name, nanoseconds: nanoseconds)
    }

    /// Runs `body`, which performs `count` operations, once to warm up and then `runs` times.
    public init(_ name: String, runs: Int = 15, count: Int, _ body: () throws -> Void) rethrows {
        try self.init(name, runs: runs, count: count, setUp: {}, body)
    }

    public var median: Double { nanoseconds[nanoseconds.count / 2] }
    public var fastest: Double { nanoseconds[0] }
    public var slowest: Double { nanoseconds[nanoseconds.count - 1] }
}

/// Prevents the compiler from eliminating the computation of a value, by passing it to an opaque function.
@inline(never)
public func keep<Value>(_ value: Value) {
    withUnsafePointer(to: value) { measuring_keep($0) }
}
