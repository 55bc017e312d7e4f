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
    /// fit, and a sample. As many again are looked at for crashes during recovery.
    public var limit: Int

    /// What everything random follows from.
    public var seed: UInt64

    /// How many crashes in a row: with 2 every recovery is crashed too.
    public var depth: Int

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
        guard id.profile == profile.name, let last = id.levels.last else { throw UnknownCrashState(id: id) }
        var recording = try await record()
        var eventCount: Int?
        for (depth, level) in id.levels.enumerated() {
            guard level.effectCount <= recording.effects.count else { throw UnknownCrashState(id: id) }
            var model = CrashModel(recording.image, profile)
            for effect in recording.effects.prefix(level.effectCount) { model.apply(effect) }
            guard let state = StateSpace(model, seed: id.seed).state(level) else { throw UnknownCrashState(id: id) }
            let marks = eventCount ?? model.markCount
            let crash = Crash(
                recording.events.prefix(marks), effectCount: level.effectCount, depth: depth + 1)
            let image = state.image
            let fileSystem = InMemoryFileSystem(image)
            fileSystem.startRecordingEffects()
            try await recover(fileSystem, crash)
            guard level != last else { return }
            recording = CrashRecording(image: image, effects: fileSystem.takeEffects(), events: recording.events)
            eventCount = marks
        }
    }

    /// All different images that a crash may leave after that many changes, at most all, or after any number of them, by
    /// their hash: for checks of the model itself.
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
        Exploration.Bounds(limit: limit, depth: depth, maximumViolationCount: maximumViolationCount)
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
        await exploration.explore(recording)
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
    }
}

/// An identifier that leads to no state of this program under this profile.
public struct UnknownCrashState: Error, Sendable, CustomStringConvertible {
    /// The identifier.
    public let id: CrashStateID

    public var description: String { "there is no state \(id): is it the same program under the same profile?" }
}
