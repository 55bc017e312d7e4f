public import ForgeFileSystem

/// Crashes a program at every moment, in every state that a profile allows, and looks at how it recovers.
///
/// The program runs once on an `InMemoryFileSystem` that records what happens to it. Every state that a power cut
/// could have left is made of that record, and each is handed to the recovery on a file system of its own. The program
/// has to be deterministic: the same calls every time, with random bits from the file system.
///
/// ``forEachCrash(profile:limit:seed:depth:marking:prepare:run:recover:)`` is the same in one call.
public struct CrashExplorer<Mark: Sendable> {
    /// What was there before the program: it is durable.
    public typealias Prepare = nonisolated(nonsending) (InMemoryFileSystem) async throws -> Void

    /// The program.
    public typealias Body = nonisolated(nonsending) (InMemoryFileSystem, CrashRun<Mark>) async throws -> Void

    /// The recovery; it throws if a promise was broken.
    public typealias Recover = nonisolated(nonsending) (InMemoryFileSystem, Crash<Mark>) async throws -> Void

    /// What crashes may do.
    public var profile: CrashProfile

    /// How many states are looked at, over all moments of the program.
    ///
    /// If there are no more than that, all are. Otherwise moments with few states are looked at whole and the others
    /// share what is left: all states that differ in one thing or two from all kept and from all lost as far as they
    /// fit, and a sample. As many again are looked at for crashes during the recovery from a power cut, and as many for
    /// power cuts during the recovery from a kill.
    public var limit: Int

    /// What everything random follows from.
    public var seed: UInt64

    /// How many crashes in a row: with 2 every recovery is crashed too.
    public var depth: Int

    /// Whether the power is cut during the recovery from a kill too: it then takes what the killed process had written,
    /// and the recovery may have relied on, but neither had synchronised.
    public var carriesKills = true

    /// How many violations are described in the report.
    public var maximumViolationCount = 5

    /// Whether a report with violations says under which assumptions there would be none, which takes more runs.
    public var diagnoses = true

    /// The kind of file system that the program runs on.
    public var options: InMemoryFileSystem.Options

    private let prepare: Prepare
    private let body: Body
    private let recover: Recover

    /// An explorer of one program.
    public init(
        profile: CrashProfile = .posixStrict, limit: Int = 100_000, seed: UInt64 = 0, depth: Int = 2,
        options: InMemoryFileSystem.Options = InMemoryFileSystem.Options(), marking: Mark.Type,
        prepare: @escaping Prepare = { _ in }, run: @escaping Body, recover: @escaping Recover
    ) {
        self.profile = profile
        self.limit = limit
        self.seed = seed
        self.depth = depth
        self.options = options
        self.prepare = prepare
        body = run
        self.recover = recover
    }

    /// Runs the program, crashes it, and reports.
    ///
    /// - Throws: What the preparation or the program itself throws while nothing crashes.
    public nonisolated(nonsending) func explore() async throws -> CrashReport {
        let clock = ContinuousClock()
        let start = clock.now
        let recording = try await record()
        var report = await explore(recording, profile, bounds)
        report.duration = clock.now - start
        if diagnoses, !report.holds { await diagnose(recording, &report) }
        return report
    }

    /// Makes one state again and recovers from it.
    ///
    /// - Throws: What the recovery throws, or ``UnknownCrashState``.
    public nonisolated(nonsending) func replay(_ id: CrashStateID) async throws {
        guard id.profile == profile.name, !id.levels.isEmpty else { throw UnknownCrashState(id: id) }
        var run = try await record().run(under: profile)
        for (place, level) in id.levels.enumerated() {
            guard let (image, start) = outcome(of: level, in: run, seed: id.seed) else {
                throw UnknownCrashState(id: id)
            }
            let fileSystem = InMemoryFileSystem(image)
            fileSystem.startRecordingEffects()
            let marks = CrashRun<Mark>(fileSystem)
            let events = run.events.prefix(start.markCount)
            try await recover(
                fileSystem,
                Crash(
                    CrashKind(id.levels[...place]), events, effectCount: level.effectCount, depth: place + 1, run: marks
                ))
            run = RecordedRun(start: start, effects: fileSystem.takeEffects(), events: events + marks.allEvents)
        }
    }

    /// The image that a crash leaves for the next run, and its model; nil if the run has no such crash.
    private func outcome(
        of level: CrashStateID.Level, in run: RecordedRun<Mark>, seed: UInt64
    ) -> (DiskImage, CrashModel)? {
        guard level.effectCount <= run.effects.count else { return nil }
        switch level {
        case .kill(let kill):
            let before = run.model(after: max(0, kill.effectCount - 1))
            guard let model = run.model(after: kill, from: before) else { return nil }
            return (model.live, model)
        case .powerCut(let cut):
            let model = run.model(after: cut.effectCount)
            guard let image = StateSpace(model, seed: seed).state(cut)?.image else { return nil }
            return (image, CrashModel(image, profile, markCount: model.markCount))
        }
    }

    /// All different images that a crash may leave after that many changes, at most all, or after any number of them,
    /// by their hash: for checks of the model itself.
    package nonisolated(nonsending) func statesByHash(after effectCount: Int? = nil) async throws -> [UInt64: DiskImage]
    {
        let recording = try await record()
        var model = CrashModel(recording.image, profile)
        var found: [UInt64: DiskImage] = [:]
        for count in 0...recording.effects.count {
            if count > 0 { model.apply(recording.effects[count - 1]) }
            if let effectCount, count != min(effectCount, recording.effects.count) { continue }
            var states = ExhaustiveStates(StateSpace(model, seed: seed))
            while let state = states.next() { found[state.hash] = state.image }
        }
        return found
    }

    /// The same without the hashes.
    package nonisolated(nonsending) func states(after effectCount: Int? = nil) async throws -> [DiskImage] {
        try await Array(statesByHash(after: effectCount).values)
    }

    // MARK: Parts

    var bounds: Exploration<Mark>.Bounds {
        Exploration.Bounds(
            limit: limit, depth: depth, carriesKills: carriesKills, maximumViolationCount: maximumViolationCount)
    }

    nonisolated(nonsending) func record() async throws -> CrashRecording<Mark> {
        var options = options
        options.seed ^= seed
        let fileSystem = InMemoryFileSystem(options: options)
        try await prepare(fileSystem)
        let image = fileSystem.image
        fileSystem.startRecordingEffects()
        let run = CrashRun<Mark>(fileSystem)
        try await body(fileSystem, run)
        return CrashRecording(image: image, effects: fileSystem.takeEffects(), events: run.allEvents)
    }

    nonisolated(nonsending) func explore(
        _ recording: CrashRecording<Mark>, _ profile: CrashProfile, _ bounds: Exploration<Mark>.Bounds
    ) async -> CrashReport {
        let exploration = Exploration(profile, seed: seed, bounds, recover: recover)
        await exploration.explore(recording.run(under: profile))
        return exploration.report
    }

    /// Which assumption is missing: explores under each weaker profile, and without each rule.
    private nonisolated(nonsending) func diagnose(
        _ recording: CrashRecording<Mark>, _ report: inout CrashReport
    ) async {
        var bounds = bounds
        bounds.limit = min(limit, 20_000)
        bounds.stopsAtFirstViolation = true
        for weaker in profile.weaker {
            if await explore(recording, weaker, bounds).holds {
                report.weakestSufficientProfile = weaker
                break
            }
        }
        for rule in CrashRule.allCases where profile.without(rule).differs(from: profile) {
            if await explore(recording, profile.without(rule), bounds).holds { report.responsibleRules.append(rule) }
        }
        guard carriesKills, depth > 1 else { return }
        bounds.carriesKills = false
        report.needsKill = await explore(recording, profile, bounds).holds
    }
}

/// The effects of a program on a file system whose initial tree is durable.
struct CrashRecording<Mark: Sendable>: Sendable {
    var image: DiskImage
    var effects: [RecordedEffect]
    var events: [CrashRun<Mark>.Event]

    func run(under profile: CrashProfile) -> RecordedRun<Mark> {
        RecordedRun(start: CrashModel(image, profile), effects: effects, events: events)
    }
}

/// An identifier that leads to no state of this program under this profile.
public struct UnknownCrashState: Error, Sendable, CustomStringConvertible {
    /// The identifier.
    public let id: CrashStateID

    public var description: String { "there is no state \(id): is it the same program under the same profile?" }
}
