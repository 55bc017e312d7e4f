/// A measurement with its goal and the figures of peers.
public struct GoalLine: Sendable {
    /// The goal of a measurement.
    public enum Goal: Sendable {
        /// At most, or at least, this multiple of the reference.
        case ratioAtMost(Double)
        case ratioAtLeast(Double)

        /// At most this figure.
        case atMost(Figure)

        /// No goal.
        case none
    }

    /// A peer's figure below a line.
    public struct Peer: Sendable {
        let name: String
        let cells: [Figure]
        let ratio: Double?

        public init(_ name: String, _ figure: Figure, ratio: Double? = nil) {
            self.name = name
            cells = [figure]
            self.ratio = ratio
        }

        /// Creates a peer from a measurement and the median of a reference.
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

    /// Creates a line from a figure, and its ratio to the reference if there is one.
    public init(_ name: String, _ goal: Goal, _ figure: Figure, ratio: Double? = nil, peers: [Peer] = []) {
        self.name = name
        self.goal = goal
        cells = [figure]
        self.ratio = ratio
        self.peers = peers
    }

    /// Creates a line from a measurement; the ratio is that of the medians unless given.
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
    /// The number in the unit of its case.
    var number: Double {
        switch self {
        case .nanoseconds(let number), .bytes(let number), .factor(let number): number
        }
    }
}
