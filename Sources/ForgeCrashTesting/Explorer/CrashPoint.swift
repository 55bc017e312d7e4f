import ForgeFileSystem

/// A moment of a run at which the states of a power cut are explored.
struct CrashPoint {
    /// The number of changes that the run had made.
    let effectCount: Int
    let space: StateSpace
    let count: Double
    private var budget = 1

    private init(_ effectCount: Int, _ space: StateSpace) {
        self.effectCount = effectCount
        self.space = space
        count = max(1, space.count)
    }

    /// Every moment that allows states which the next one does not allow.
    ///
    /// - Parameters:
    ///   - run: The run.
    ///   - kind: The preceding crash. After a kill, a power cut before the first change belongs to the previous run.
    ///   - seed: The seed of all randomness.
    ///   - limit: The number of states to visit: small moments completely, the others share the rest.
    /// - Returns: The moments, each with its share of the limit.
    static func all(
        of run: RecordedRun<some Sendable>, after kind: CrashKind?, seed: UInt64, limit: Int
    ) -> [CrashPoint] {
        var model = run.start
        var points: [CrashPoint] = []
        for count in 0...run.effects.count {
            if count > 0 { model.apply(run.effects[count - 1]) }
            guard isBorder(count, run), count > 0 || kind != .processKill else { continue }
            points.append(CrashPoint(count, StateSpace(model, seed: seed, after: points.last?.space)))
        }
        for (place, share) in shares(of: limit, among: points.map(\.count)).enumerated() {
            points[place].budget = share
        }
        return points
    }

    /// Whether a moment allows states that the next one with the same marks does not allow.
    private static func isBorder(_ count: Int, _ run: RecordedRun<some Sendable>) -> Bool {
        guard run.start.profile.isMonotonic, count < run.effects.count else { return true }
        switch run.effects[count].effect {
        case .synchronize, .mark: return true
        default: return false
        }
    }

    /// All states, or a sample within the budget.
    func states(seed: UInt64) -> States {
        if count <= Double(budget), space.nameChoiceCount != nil { return States(exhaustive: ExhaustiveStates(space)) }
        return States(sampled: SampledStates(space, limit: budget, seed: seed))
    }

    struct States: IteratorProtocol {
        fileprivate var exhaustive: ExhaustiveStates?
        fileprivate(set) var sampled: SampledStates?

        mutating func next() -> CrashState? { exhaustive?.next() ?? sampled?.next() }
    }
}
