public import ForgeFileSystem

/// Crashes a program at every moment, in every state that a profile allows, and checks its recovery.
///
/// The program runs once on an `InMemoryFileSystem` that records its changes. The explorer derives every state that a
/// power cut could leave from that recording, and runs the recovery on each, on a separate file system. The program
/// must be deterministic: it makes the same calls in every run, and takes random bits from the file system.
///
/// Not simulated: a device that loses what it has confirmed or damages what was not written, lost attributes of
/// directories, several devices, and threads that run at the moment of the crash in another order than they were recorded.
///
/// ``forEachCrash(profile:limit:seed:depth:marking:prepare:run:recover:)`` does the same in one call.
public struct CrashExplorer<Mark: Sendable> {
    /// Creates the initial state, which is durable.
    public typealias Prepare = nonisolated(nonsending) (InMemoryFileSystem) async throws -> Void

    /// The program.
    public typealias Body = nonisolated(nonsending) (InMemoryFileSystem, CrashRun<Mark>) async throws -> Void

    /// The recovery; it throws if a promise was violated.
    public typealias Recover = nonisolated(nonsending) (InMemoryFileSystem, Crash<Mark>) async throws -> Void

    /// The permitted effects of crashes.
    public var profile: CrashProfile

    /// The number of states to visit, over all moments of the program.
    ///
    /// If there are no more, all are visited. Otherwise moments with few states are visited completely, and the others
    /// share the rest: first all states that differ in one or two choices from all kept and from all lost, as far as
    /// they fit, then a sample. The same limit applies again to crashes during the recovery from a power cut, and to
    /// power cuts during the recovery from a kill.
    public var limit: Int

    /// The seed of all randomness.
    public var seed: UInt64

    /// The number of consecutive crashes: with 2, every recovery is crashed too.
    public var depth: Int

    /// Whether to cut the power also during the recovery from a kill: this loses data that the killed process had
    /// written and the recovery may have relied on, but neither had synchronised.
    public var carriesKills = true

    /// The maximum number of violations described in the report.
    public var maximumViolationCount = 5

    /// Whether a report with violations names the assumptions under which there are none, which takes more runs.
    public var diagnoses = true

    /// The properties of the file system.
    public var options: InMemoryFileSystem.Options

    private let prepare: Prepare
    private let body: Body
    private let recover: Recover

    /// Creates an explorer of one program.
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
    /// - Throws: The error of the preparation or of the program without a crash; ``NothingChanged`` if the program makes
    ///   no change on the file system that it is given.
    public nonisolated(nonsending) func explore() async throws -> CrashReport {
        let clock = ContinuousClock()
        let start = clock.now
        let recording = try await record()
        guard recording.hasChanges else { throw NothingChanged() }
        var report = await explore(recording, profile, bounds)
        report.duration = clock.now - start
        if diagnoses, !report.holds { await diagnose(recording, &report) }
        return report
    }

    /// Reconstructs one state and recovers from it.
    ///
    /// The explorer must be the one that has reported the state: of the same program, profile, limit and depth. Recoveries
    /// on which the state depends run again before it.
    ///
    /// - Throws: The error of the recovery, ``UnknownCrashState``, or the error of the program.
    public nonisolated(nonsending) func replay(_ id: CrashStateID) async throws {
        guard id.profile == profile.name else { throw UnknownCrashState(id: id) }
        var explorer = self
        explorer.seed = id.seed
        let exploration = Exploration(
            profile, seed: id.seed, explorer.bounds, replaying: id.number, recover: recover)
        await exploration.explore(try await explorer.record().run(under: profile))
        guard exploration.hasReplayed else { throw UnknownCrashState(id: id) }
        if let error = exploration.replayedError { throw error }
    }

    /// All distinct images, by hash, that a crash may leave after `effectCount` changes, or after any number if nil:
    /// for checks of the model itself.
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

    /// The images of ``statesByHash(after:)``.
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

    /// Finds the missing assumption: explores under each weaker profile, and without each rule.
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

/// The recorded effects of a program, and its durable initial tree.
struct CrashRecording<Mark: Sendable>: Sendable {
    var image: DiskImage
    var effects: [RecordedEffect]
    var events: [CrashRun<Mark>.Event]

    /// Whether there are more effects than marks.
    var hasChanges: Bool {
        effects.contains { recorded in
            if case .mark = recorded.effect { false } else { true }
        }
    }

    func run(under profile: CrashProfile) -> RecordedRun<Mark> {
        RecordedRun(start: CrashModel(image, profile), effects: effects, events: events)
    }
}

/// A program that changed nothing on the file system that it was given, so that no crash can lose anything: it writes to
/// another file system, or does nothing.
public struct NothingChanged: Error, Hashable, Sendable, CustomStringConvertible {
    public var description: String { "the program changed nothing on the file system that it was given" }
}

/// An identifier without a matching state of this program under this profile.
public struct UnknownCrashState: Error, Sendable, CustomStringConvertible {
    /// The identifier.
    public let id: CrashStateID

    public var description: String { "there is no state \(id): is it the same program under the same profile?" }
}

/// The identifier of a state after a crash, from which ``CrashExplorer/replay(_:)`` reconstructs it.
///
/// It reads `posixStrict/0#17`: the profile, the seed in base 36, and the number of the state in the exploration, counted
/// from 1. It identifies the same state as long as program, profile, limit and depth are the same.
public struct CrashStateID: Hashable, Sendable, CustomStringConvertible {
    let profile: String
    let seed: UInt64
    let number: Int

    init(profile: String, seed: UInt64, number: Int) {
        self.profile = profile
        self.seed = seed
        self.number = number
    }

    /// Parses the identifier of a report; nil if the text is not one.
    public init?(_ text: String) {
        let sides = text.split(separator: "#", omittingEmptySubsequences: false)
        guard sides.count == 2, let slash = sides[0].lastIndex(of: "/"),
            let seed = UInt64(sides[0][sides[0].index(after: slash)...], radix: 36), let number = Int(sides[1]),
            number > 0
        else { return nil }
        self.init(profile: String(sides[0][..<slash]), seed: seed, number: number)
        guard description == text else { return nil }
    }

    public var description: String { "\(profile)/\(String(seed, radix: 36))#\(number)" }
}

/// One crash of a chain: of the program, or of the recovery from the crash before.
enum CrashLevel: Hashable, Sendable {
    /// The power failed after this number of changes.
    case powerCut(effectCount: Int)
    case kill(Kill)

    /// The end of a process.
    struct Kill: Hashable, Sendable {
        var effectCount: Int
        /// The bytes of the last change, a store, that were made; nil for all.
        var part: Range<Int>?
    }

    var kind: CrashKind {
        switch self {
        case .powerCut: .powerCut
        case .kill: .processKill
        }
    }

    var effectCount: Int {
        switch self {
        case .powerCut(let count): count
        case .kill(let kill): kill.effectCount
        }
    }
}

extension CrashLevel: CustomStringConvertible {
    var description: String {
        switch self {
        case .powerCut(let count): "power cut after change \(count)"
        case .kill(let kill):
            if let part = kill.part {
                "kill after bytes \(part.lowerBound)..<\(part.upperBound) of change \(kill.effectCount)"
            } else {
                "kill after change \(kill.effectCount)"
            }
        }
    }
}
