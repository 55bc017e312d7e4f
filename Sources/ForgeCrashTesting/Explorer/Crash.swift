/// A crash, as the code that recovers from it sees it.
///
/// The recovery is a run of the program itself: what it begins and acknowledges counts for the crashes that follow.
public struct Crash<Mark: Sendable>: Sendable {
    /// How the runs before ended: ``CrashKind/powerCut`` if the power has failed at least once, since what that took
    /// stays lost when the recovery is killed; ``CrashKind/processKill`` if they were only killed.
    public let kind: CrashKind

    /// What had been acknowledged, in order, by all runs before.
    public let acknowledged: [Mark]

    /// What had been begun, in order, by all runs before, acknowledged since or not.
    public let begun: [Mark]

    /// How many changes of the file system the last run had made.
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

    /// Marks the start of an operation of the recovery: from now on its effect may be found after a crash.
    public func begin(_ mark: Mark) {
        run.begin(mark)
    }

    /// Marks that an operation of the recovery was acknowledged: from now on its effect must be found after every
    /// crash.
    public func acknowledge(_ mark: Mark) {
        run.acknowledge(mark)
    }
}
