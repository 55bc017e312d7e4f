/// The calls that a fault affects; all given conditions must hold.
public struct FaultOccurrence: Hashable, Sendable {
    /// The numbers of the calls, counted from 1.
    public var calls: ClosedRange<Int>?

    /// Every nth call.
    public var every: Int?

    /// The calls after the first n.
    public var after: Int?

    /// The probability of each call, 0 to 1; the choice is determined by the seed of the plan.
    public var probability: Double?

    /// Creates an occurrence from its conditions; every call if there is none.
    public init(calls: ClosedRange<Int>? = nil, every: Int? = nil, after: Int? = nil, probability: Double? = nil) {
        self.calls = calls
        self.every = every
        self.after = after
        self.probability = probability
    }

    func includes(_ number: Int, _ generator: inout SplitMix64) -> Bool {
        if let calls, !calls.contains(number) { return false }
        if let every, every < 1 || number % every != 0 { return false }
        if let after, number <= after { return false }
        if let probability, generator.nextFraction() >= probability { return false }
        return true
    }
}

extension FaultOccurrence: CustomStringConvertible {
    public var description: String {
        var conditions: [String] = []
        if let calls {
            conditions.append(
                calls.count == 1 ? "call \(calls.lowerBound)" : "calls \(calls.lowerBound) to \(calls.upperBound)")
        }
        if let every { conditions.append("every \(every)") }
        if let after { conditions.append("after \(after)") }
        if let probability { conditions.append("probability \(probability)") }
        return conditions.isEmpty ? "always" : conditions.joined(separator: ", ")
    }
}
