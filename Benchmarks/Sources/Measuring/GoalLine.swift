/// What was measured beside what it is to reach, and beside what others reach.
public struct GoalLine: Sendable {
    /// What is to be reached.
    public enum Goal: Sendable {
        /// So many times the reference at most, or at least.
        case ratioAtMost(Double)
        case ratioAtLeast(Double)

        /// So much at most, whatever the reference.
        case atMost(Figure)

        /// Nothing: it is only told.
        case none
    }

    /// What stands below a line for comparison.
    public struct Peer: Sendable {
        let name: String
        let cells: [Figure]
        let ratio: Double?

        public init(_ name: String, _ figure: Figure, ratio: Double? = nil) {
            self.name = name
            cells = [figure]
            self.ratio = ratio
        }

        /// A measurement, beside the median of a reference.
        public init(_ measurement: Measurement, reference: Measurement?) {
            name = measurement.name
            cells = measurement.cells
            ratio = reference.map { measurement.median / $0.median }
        }
    }

    let name: String
    let goal: Goal
    let cells: [Figure]
    let ratio: Double?
    let peers: [Peer]

    /// A line of a single figure, and its ratio to the reference if there is one.
    public init(_ name: String, _ goal: Goal, _ figure: Figure, ratio: Double? = nil, peers: [Peer] = []) {
        self.name = name
        self.goal = goal
        cells = [figure]
        self.ratio = ratio
        self.peers = peers
    }

    /// A line of a measurement whose ratio is that of the medians, or the one that is given.
    public init(
        _ name: String, _ goal: Goal, _ measurement: Measurement, reference: Measurement? = nil, ratio: Double? = nil,
        peers: [Peer] = []
    ) {
        self.name = name
        self.goal = goal
        cells = measurement.cells
        self.ratio = ratio ?? reference.map { measurement.median / $0.median }
        self.peers = peers
    }

    /// Whether the goal is met; nil if there is none.
    public var isMet: Bool? {
        switch goal {
        case .ratioAtMost(let limit): ratio.map { $0 <= limit }
        case .ratioAtLeast(let limit): ratio.map { $0 >= limit }
        case .atMost(let limit): cells[0].number <= limit.number
        case .none: nil
        }
    }
}

extension Measurement {
    var cells: [Figure] { [median, fastest, slowest].map { .nanoseconds($0) } }
}

extension Figure {
    /// The number in the unit that its case says.
    var number: Double {
        switch self {
        case .nanoseconds(let number), .bytes(let number), .factor(let number): number
        }
    }
}
