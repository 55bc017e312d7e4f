import ForgeFileSystem
import Synchronization

/// A crash, from the viewpoint of the recovery.
///
/// The recovery is a run of the program itself: its marks apply to later crashes.
public struct Crash<Mark: Sendable>: Sendable {
    /// How earlier runs ended: ``CrashKind/powerCut`` if the power failed at least once, because its losses persist
    /// when the recovery is killed; ``CrashKind/processKill`` if all were killed.
    public let kind: CrashKind

    /// The marks acknowledged by all earlier runs, in order.
    public let acknowledged: [Mark]

    /// The marks begun by all earlier runs, in order, whether acknowledged or not.
    public let begun: [Mark]

    /// The number of file-system changes that the last run made.
    public let effectCount: Int

    /// 1 for a crash of the program, 2 for one of the recovery after it.
    public let depth: Int

    private let run: CrashRun<Mark>

    init(
        _ kind: CrashKind, _ events: some Sequence<CrashRun<Mark>.Event>, effectCount: Int, depth: Int,
        run: CrashRun<Mark>
    ) {
        var acknowledged: [Mark] = []
        var begun: [Mark] = []
        for event in events {
            switch event {
            case .began(let mark): begun.append(mark)
            case .acknowledged(let mark): acknowledged.append(mark)
            }
        }
        self.kind = kind
        self.acknowledged = acknowledged
        self.begun = begun
        self.effectCount = effectCount
        self.depth = depth
        self.run = run
    }

    /// Marks the start of an operation of the recovery: its effect may be found after later crashes.
    public func begin(_ mark: Mark) {
        run.begin(mark)
    }

    /// Marks an operation of the recovery as acknowledged: its effect must be found after every later crash.
    public func acknowledge(_ mark: Mark) {
        run.acknowledge(mark)
    }
}

/// How a process ends without warning.
public enum CrashKind: Hashable, Sendable, CaseIterable {
    /// The process is killed and the system continues: written data is kept but not made durable. Descriptors, locks
    /// and mappings are gone.
    case processKill

    /// The power fails: changes that were not synchronised may be lost, including names of files.
    case powerCut

    /// The kind that a recovery must expect after these crashes.
    init(_ levels: some Sequence<CrashLevel>) {
        self = levels.allSatisfy { $0.kind == .processKill } ? .processKill : .powerCut
    }
}

/// The marks of a run of the program: the operations begun and acknowledged.
///
/// Marks are recorded between the changes of the file system; each state is checked against the marks made before the
/// crash.
public final class CrashRun<Mark: Sendable>: Sendable {
    enum Event: Sendable {
        case began(Mark)
        case acknowledged(Mark)
    }

    private let events = Mutex<[Event]>([])
    private let fileSystem: InMemoryFileSystem

    init(_ fileSystem: InMemoryFileSystem) {
        self.fileSystem = fileSystem
    }

    /// Marks the start of an operation: its effect may be found after later crashes.
    public func begin(_ mark: Mark) {
        note(.began(mark))
    }

    /// Marks an operation as acknowledged: its effect must be found after every later crash.
    public func acknowledge(_ mark: Mark) {
        note(.acknowledged(mark))
    }

    var allEvents: [Event] { events.withLock { $0 } }

    private func note(_ event: Event) {
        events.withLock { events in
            fileSystem.recordMark(events.count)
            events.append(event)
        }
    }
}

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
