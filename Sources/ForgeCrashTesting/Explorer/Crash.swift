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
