import ForgeFileSystem

/// What a program did to a file system, and what it said about it.
struct CrashRecording<Mark: Sendable>: Sendable {
    var image: DiskImage
    var effects: [RecordedEffect]
    var events: [CrashRun<Mark>.Event]
}

/// The walk through the states of a recording, and through those of crashes during the recovery from them.
final class Exploration<Mark: Sendable> {
    typealias Recover = nonisolated(nonsending) (InMemoryFileSystem, Crash<Mark>) async throws -> Void

    /// What the walk has to keep to.
    struct Bounds {
        var limit: Int
        var depth: Int
        var maximumViolationCount: Int
        var stopsAtFirstViolation = false
    }

    private let profile: CrashProfile
    private let seed: UInt64
    private let bounds: Bounds
    private let recover: Recover
    private(set) var report: CrashReport
    private var seen: Set<UInt64> = []
    private var nestedBudget: Int

    /// A moment of a recording.
    private struct Point {
        let space: StateSpace
        /// Whether all states are looked at, or only the one in which nothing is lost.
        let isFull: Bool
        let count: Double
        var budget = 1.0

        init(_ space: StateSpace, isFull: Bool) {
            self.space = space
            self.isFull = isFull
            count = isFull ? max(1, space.count) : 1
        }
    }

    init(_ profile: CrashProfile, seed: UInt64, _ bounds: Bounds, recover: @escaping Recover) {
        self.profile = profile
        self.seed = seed
        self.bounds = bounds
        self.recover = recover
        nestedBudget = bounds.depth > 1 ? bounds.limit : 0
        report = CrashReport(profile: profile, seed: seed)
    }

    nonisolated(nonsending) func explore(_ recording: CrashRecording<Mark>) async {
        report.effectCount = recording.effects.count
        await walk(recording, limit: bounds.limit, above: [], eventCount: nil)
    }

    /// Visits the states of a recording; `eventCount` is how many events count, if not those before each moment.
    private nonisolated(nonsending) func walk(
        _ recording: CrashRecording<Mark>, limit: Int, above: [CrashStateID.Level], eventCount: Int?
    ) async {
        let isOuter = above.isEmpty
        var visited = 0
        let points = plan(recording, limit: limit)
        if isOuter {
            report.crashPointCount = points.count
            report.possibleStateCount = points.reduce(0) { $0 + $1.count }
        }
        for point in points {
            if bounds.stopsAtFirstViolation, report.violationCount > 0 { return }
            let space = point.space
            var iterator = StateIterator(space, point.isFull, budget: point.budget, count: point.count, seed: seed)
            if isOuter, let sampled = iterator.sampled {
                report.sampledCrashPointCount += 1
                if !sampled.hasAllSingles { report.hasAllSingleDeviations = false }
                if !sampled.hasAllPairs { report.hasAllPairDeviations = false }
            }
            let marks = eventCount ?? space.model.markCount
            let crash = Crash(
                recording.events.prefix(marks), effectCount: space.model.effectCount, depth: above.count + 1)
            while let state = iterator.next() {
                visited += 1
                if isOuter { report.visitedStateCount += 1 }
                guard seen.insert(StableHash.of(state.hash, UInt64(marks))).inserted else { continue }
                let left = max(1, limit - visited)
                let nestedLimit = isOuter ? min(nestedBudget, max(32, nestedBudget / left)) : 0
                await visit(state, in: space, crash, recording, above: above, nestedLimit: nestedLimit)
                if bounds.stopsAtFirstViolation, report.violationCount > 0 { return }
            }
        }
    }

    private nonisolated(nonsending) func visit(
        _ state: CrashState, in space: StateSpace, _ crash: Crash<Mark>, _ recording: CrashRecording<Mark>,
        above: [CrashStateID.Level], nestedLimit: Int
    ) async {
        report.stateCount += 1
        if !above.isEmpty { report.nestedStateCount += 1 }
        var level = state.level
        level.effectCount = space.model.effectCount
        let image = state.image
        let fileSystem = InMemoryFileSystem(image)
        let goesDeeper = nestedLimit > 0 && crash.depth < bounds.depth
        if goesDeeper { fileSystem.startRecordingEffects() }
        do {
            try await recover(fileSystem, crash)
        } catch {
            report.violationCount += 1
            guard report.violations.count < bounds.maximumViolationCount else { return }
            report.violations.append(
                CrashViolation(
                    id: CrashStateID(profile: profile.name, seed: seed, levels: above + [level]),
                    reason: "\(error)", losses: state.losses(in: space)))
            return
        }
        guard goesDeeper else { return }
        let effects = fileSystem.takeEffects()
        guard !effects.isEmpty else { return }
        let before = report.stateCount
        let nested = CrashRecording<Mark>(image: image, effects: effects, events: recording.events)
        await walk(
            nested, limit: nestedLimit, above: above + [level],
            eventCount: crash.acknowledged.count + crash.begun.count)
        nestedBudget -= min(nestedBudget, report.stateCount - before)
    }

    // MARK: Planning

    /// Which moments are looked at, and how many states at each.
    private func plan(_ recording: CrashRecording<Mark>, limit: Int) -> [Point] {
        var model = CrashModel(recording.image, profile)
        var points: [Point] = []
        for count in 0...recording.effects.count {
            if count > 0 { model.apply(recording.effects[count - 1]) }
            let space = StateSpace(model, seed: seed, after: points.last?.space)
            points.append(Point(space, isFull: isBorder(count, recording)))
        }
        // Small moments are looked at whole, and what they leave of the limit is shared by the others.
        var left = Double(limit)
        var rest = points.count
        for place in points.indices.sorted(by: { points[$0].count < points[$1].count }) {
            points[place].budget = max(1, (left / Double(rest)).rounded(.down))
            left -= min(points[place].count, points[place].budget)
            rest -= 1
        }
        return points
    }

    /// Whether states are possible at a moment that are not possible at the next one with the same marks made.
    private func isBorder(_ count: Int, _ recording: CrashRecording<Mark>) -> Bool {
        guard profile.isMonotonic, count < recording.effects.count else { return true }
        switch recording.effects[count].effect {
        case .synchronize, .mark: return true
        default: return false
        }
    }
}

/// The states of one moment, all or some.
private struct StateIterator: IteratorProtocol {
    private var live: CrashState?
    private var exhaustive: ExhaustiveStates?
    private(set) var sampled: SampledStates?

    init(_ space: StateSpace, _ isFull: Bool, budget: Double, count: Double, seed: UInt64) {
        guard isFull else {
            // A kill of the process is looked at whatever the limit is.
            live = space.live
            return
        }
        if count <= budget, space.nameChoiceCount != nil {
            exhaustive = ExhaustiveStates(space)
        } else {
            sampled = SampledStates(space, limit: Int(budget), seed: seed)
        }
    }

    mutating func next() -> CrashState? {
        if let state = live {
            live = nil
            return state
        }
        return exhaustive?.next() ?? sampled?.next()
    }
}
