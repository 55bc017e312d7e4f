import ForgeFileSystem

/// A moment of a run at which a power cut is looked at.
struct CrashPoint {
    /// How many changes the run had made.
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
    ///   - kind: What the run follows. After a kill, a power cut before the first change is one of the run before.
    ///   - seed: What everything random follows from.
    ///   - limit: How many states are looked at: small moments whole, and the others share what is left.
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

    /// Whether states are possible at a moment that are not possible at the next one with the same marks made.
    private static func isBorder(_ count: Int, _ run: RecordedRun<some Sendable>) -> Bool {
        guard run.start.profile.isMonotonic, count < run.effects.count else { return true }
        switch run.effects[count].effect {
        case .synchronize, .mark: return true
        default: return false
        }
    }

    /// The states, all or as many as the budget allows.
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
