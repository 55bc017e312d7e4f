import ForgeFileSystem
import ForgeStorageTesting

/// The exploration of the crashes of a run, and of the crashes of its recoveries.
final class Exploration<Mark: Sendable> {
    typealias Recover = nonisolated(nonsending) (InMemoryFileSystem, Crash<Mark>) async throws -> Void

    /// The limits of the exploration.
    struct Bounds {
        /// The number of states to visit.
        var limit: Int
        /// The maximum number of consecutive crashes.
        var depth: Int
        /// Whether the recovery from a kill is crashed too.
        var carriesKills: Bool
        /// The maximum number of violations described in the report.
        var maximumViolationCount: Int
        var stopsAtFirstViolation = false
    }

    let profile: CrashProfile
    let seed: UInt64
    let bounds: Bounds
    private let recover: Recover
    private(set) var report: CrashReport
    /// The hashes of the states that were recovered from, with their marks.
    private var seen: Set<UInt64> = []
    /// The number of states that may still be visited during recoveries from power cuts.
    private var nestedBudget: Int
    /// The number of recorded recoveries, from which their identities are assigned.
    private var runCount: UInt64 = 0
    /// For a replay, the number of the state to replay; of the states before it, only those whose recovery is itself
    /// crashed are recovered from.
    private let replayed: Int?
    /// The error of the recovery from the replayed state.
    private(set) var replayedError: (any Error)?

    init(
        _ profile: CrashProfile, seed: UInt64, _ bounds: Bounds, replaying replayed: Int? = nil,
        recover: @escaping Recover
    ) {
        self.replayed = replayed
        self.profile = profile
        self.seed = seed
        self.bounds = bounds
        self.recover = recover
        nestedBudget = bounds.depth > 1 ? bounds.limit : 0
        report = CrashReport(profile: profile, seed: seed)
    }

    /// Visits the states after a power cut and after a kill at each moment of a run; fills the report.
    nonisolated(nonsending) func explore(_ run: RecordedRun<Mark>) async {
        report.effectCount = run.effects.count
        await cutPower(in: run, limit: bounds.limit, above: [])
        await kill(run, limit: bounds.limit, above: [])
    }

    private var isDone: Bool { bounds.stopsAtFirstViolation && report.violationCount > 0 || hasReplayed }

    /// Whether the replayed state was reached.
    var hasReplayed: Bool { replayed.map { report.stateCount >= $0 } ?? false }

    // MARK: Power cuts

    /// Visits the states that a power cut may leave at any moment of a run.
    private nonisolated(nonsending) func cutPower(
        in run: RecordedRun<Mark>, limit: Int, above: [CrashLevel]
    ) async {
        let isOuter = above.isEmpty
        let points = CrashPoint.all(of: run, after: above.last?.kind, seed: seed, limit: limit)
        if isOuter {
            report.crashPointCount = run.effects.count + 1
            report.possibleStateCount = points.reduce(0) { $0 + $1.count }
        }
        var visited = 0
        var isExhaustive = true
        for point in points {
            var states = point.states(seed: seed)
            if let sampled = states.sampled {
                isExhaustive = false
                if isOuter { report.note(sampled) }
            }
            let marks = run.marks(in: point.space.model)
            while let state = states.next() {
                visited += 1
                if isOuter { report.visitedStateCount += 1 }
                guard seen.insert(StableHash.of(state.hash, marks)).inserted else { continue }
                let left = max(1, limit - visited)
                let nestedLimit = isOuter ? min(nestedBudget, max(32, nestedBudget / left)) : 0
                await visit(state, at: point, of: run, above: above, nestedLimit: nestedLimit)
                if isDone { return }
            }
        }
        if above.last?.kind == .processKill, !isExhaustive { report.sampledKillCount += 1 }
    }

    /// Recovers from a state after a power cut, and explores the crashes of that recovery.
    private nonisolated(nonsending) func visit(
        _ state: CrashState, at point: CrashPoint, of run: RecordedRun<Mark>, above: [CrashLevel],
        nestedLimit: Int
    ) async {
        let levels = above + [.powerCut(effectCount: point.effectCount)]
        let model = point.space.model
        let goesDeeper = nestedLimit > 0 && levels.count < bounds.depth
        let image = state.image
        let start = goesDeeper ? CrashModel(image, profile, markCount: model.markCount) : nil
        let next = await recover(
            from: levels, on: image, start, events: run.events.prefix(model.markCount),
            earlierMarks: run.marks(in: model), of: run, losses: { state.losses(in: point.space, $0) })
        guard let next, !next.effects.isEmpty, !isDone else { return }
        let before = report.stateCount
        await cutPower(in: next, limit: nestedLimit, above: levels)
        await kill(next, limit: nestedLimit, above: levels)
        nestedBudget -= min(nestedBudget, report.stateCount - before)
    }

    // MARK: Kills

    /// Kills a run at every moment, recovers from the live state, and cuts the power during that recovery.
    private nonisolated(nonsending) func kill(
        _ run: RecordedRun<Mark>, limit: Int, above: [CrashLevel]
    ) async {
        guard !isDone else { return }
        let isCarriedOn = bounds.carriesKills && above.count + 1 < bounds.depth
        let kills = chosenKills(of: run, limit: limit, isOuter: above.isEmpty)
        var model = run.start
        var effectCount = 0
        var followers: [(levels: [CrashLevel], run: RecordedRun<Mark>, count: Double)] = []
        for kill in kills {
            while effectCount < kill.effectCount - 1 {
                model.apply(run.effects[effectCount])
                effectCount += 1
            }
            guard let killed = run.model(after: kill, from: model) else { continue }
            let levels = above + [.kill(kill)]
            if isCarriedOn { report.killCount += 1 }
            let next = await recover(
                from: levels, on: killed.live, isCarriedOn ? killed : nil,
                events: run.events.prefix(killed.markCount), earlierMarks: run.marks(in: killed), of: run,
                losses: { _ in [] })
            if isDone { return }
            guard var next, !next.effects.isEmpty else { continue }
            next.earlierEffects = run.earlierEffects + run.effects.prefix(kill.effectCount)
            let count = CrashPoint.all(of: next, after: .processKill, seed: seed, limit: 1).reduce(0) { $0 + $1.count }
            followers.append((levels, next, count))
        }
        let shares = shares(of: limit, among: followers.map(\.count))
        for (follower, share) in zip(followers, shares) {
            await cutPower(in: follower.run, limit: share, above: follower.levels)
            if isDone { return }
            await self.kill(follower.run, limit: share, above: follower.levels)
            if isDone { return }
        }
    }

    /// All kills if there are few. Otherwise, for the program itself, all kills between changes and a sample of the
    /// kills during stores; for a recovery, a sample of the kills between changes.
    private func chosenKills(of run: RecordedRun<Mark>, limit: Int, isOuter: Bool) -> [CrashLevel.Kill] {
        let kills = run.kills
        var generator = SplitMix64(seed: seed ^ run.identity)
        guard isOuter else {
            let whole = kills.indices.filter { kills[$0].part == nil }.shuffled(using: &generator)
            return whole.prefix(max(2, limit / 8)).sorted().map { kills[$0] }
        }
        let wholeCount = kills.count { $0.part == nil }
        let partLimit = max(0, limit / 16 - wholeCount)
        guard kills.count - wholeCount > partLimit else { return kills }
        report.skippedKillCount = kills.count - wholeCount - partLimit
        let parts = kills.indices.filter { kills[$0].part != nil }.shuffled(using: &generator).prefix(partLimit)
        let whole = kills.indices.filter { kills[$0].part == nil }
        return (whole + parts).sorted().map { kills[$0] }
    }

    // MARK: Recovery

    /// Recovers from a crash; returns the recovery as a run; nil if it threw, or if its initial model `start` is nil.
    private nonisolated(nonsending) func recover(
        from levels: [CrashLevel], on image: DiskImage, _ start: CrashModel?,
        events: ArraySlice<CrashRun<Mark>.Event>, earlierMarks: UInt64, of run: RecordedRun<Mark>,
        losses: (CrashLog) -> [String]
    ) async -> RecordedRun<Mark>? {
        report.count(levels.map(\.kind))
        if let replayed, report.stateCount < replayed, start == nil { return nil }
        let fileSystem = InMemoryFileSystem(image)
        if start != nil { fileSystem.startRecordingEffects() }
        let marks = CrashRun<Mark>(fileSystem)
        let crash = Crash(
            CrashKind(levels), events, effectCount: levels.last?.effectCount ?? 0, depth: levels.count,
            run: marks)
        do {
            try await recover(fileSystem, crash)
        } catch {
            report.violationCount += 1
            if report.stateCount == replayed { replayedError = error }
            guard report.violations.count < bounds.maximumViolationCount else { return nil }
            let log = CrashLog(run, effectCount: levels.last?.effectCount ?? 0)
            report.violations.append(
                CrashViolation(
                    id: CrashStateID(profile: profile.name, seed: seed, number: report.stateCount), reason: "\(error)",
                    crashes: levels.map(\.description), losses: losses(log), log: log.text))
            return nil
        }
        guard let start else { return nil }
        runCount += 1
        return RecordedRun(
            start: start, effects: fileSystem.takeEffects(), events: events + marks.allEvents, identity: runCount,
            earlierMarks: earlierMarks)
    }
}

/// Splits a limit among counts: small counts get a share that covers them, and the others equal shares of the rest.
func shares(of limit: Int, among counts: [Double]) -> [Int] {
    var shares = [Int](repeating: 1, count: counts.count)
    var left = Double(limit)
    var rest = counts.count
    for place in counts.indices.sorted(by: { counts[$0] < counts[$1] }) {
        let share = max(1, (left / Double(rest)).rounded(.down))
        shares[place] = Int(share)
        left -= min(counts[place], share)
        rest -= 1
    }
    return shares
}

/// One run of the program or of its recovery: initial state, effects and marks.
struct RecordedRun<Mark: Sendable>: Sendable {
    /// The initial state, including everything that was not durable.
    var start: CrashModel
    var effects: [RecordedEffect]
    /// The effects of killed runs before this one, since the last power cut.
    var earlierEffects: [RecordedEffect] = []
    /// The events, which carry the marks, of this run and of the runs before it.
    var events: [CrashRun<Mark>.Event]
    /// Distinguishes this run from every run whose marks may differ.
    var identity: UInt64 = 0
    /// The identity of the marks made before this run.
    var earlierMarks: UInt64 = 0

    /// The identity of the marks made up to a moment of the run; equal if a recovery cannot distinguish the moments.
    func marks(in model: CrashModel) -> UInt64 {
        let count = model.markCount - start.markCount
        return count == 0 ? earlierMarks : StableHash.of(earlierMarks, identity, UInt64(count))
    }

    /// The model after a kill; nil if the kill is partial and the last effect is not a store.
    ///
    /// - Parameters:
    ///   - kill: The moment, within the run.
    ///   - before: The model before the last effect.
    /// - Returns: The model that the next run starts with.
    func model(after kill: CrashLevel.Kill, from before: CrashModel) -> CrashModel? {
        var model = before
        if kill.effectCount > 0 {
            var last = effects[kill.effectCount - 1]
            if let part = kill.part {
                guard let torn = last.torn(to: part) else { return nil }
                last = torn
            }
            model.apply(last)
        }
        model.killProcess()
        return model
    }

    /// Every moment at which the process can be killed: after each change, and during each store.
    var kills: [CrashLevel.Kill] {
        var kills: [CrashLevel.Kill] = []
        for (place, recorded) in effects.enumerated() {
            if start.profile.tearsStores, case .store(_, let offset, let bytes, _) = recorded.effect {
                // Words are aligned to the start of the file.
                let shift = Int(offset % 8)
                for part in TornStore.parts(of: shift..<shift + bytes.count) {
                    let part = part.lowerBound - shift..<part.upperBound - shift
                    kills.append(CrashLevel.Kill(effectCount: place + 1, part: part))
                }
            }
            kills.append(CrashLevel.Kill(effectCount: place + 1))
        }
        return kills
    }
}

extension RecordedEffect {
    /// The same store with only some of its bytes; nil for any other effect.
    fileprivate func torn(to part: Range<Int>) -> RecordedEffect? {
        guard case .store(let inode, let offset, let bytes, let time) = effect, part.upperBound <= bytes.count else {
            return nil
        }
        var torn = self
        torn.effect = .store(
            inode: inode, offset: offset + Int64(part.lowerBound), bytes: Array(bytes[part]), time: time)
        return torn
    }
}
