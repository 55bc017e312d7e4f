/// What an exploration saw.
public struct CrashReport: Sendable {
    /// The profile whose states were explored.
    public let profile: CrashProfile

    /// The seed of everything random, in the program and in the choice of states.
    public let seed: UInt64

    /// How many changes of the file system the program made.
    public internal(set) var effectCount = 0

    /// The moments at which a crash was tried: before the first change and after each.
    public internal(set) var crashPointCount = 0

    /// How many states the profile allows, before equal ones are left out.
    public internal(set) var possibleStateCount = 0.0

    /// How many of these were looked at.
    public internal(set) var visitedStateCount = 0

    /// How many different states the program had to recover from, those of crashes during recovery included.
    public internal(set) var stateCount = 0

    /// How many of ``stateCount`` came from a crash during the recovery from a power cut.
    public internal(set) var nestedStateCount = 0

    /// How many kills of the process were carried on: followed by a recovery, and by power cuts during that recovery.
    public internal(set) var killCount = 0

    /// How many of ``stateCount`` came from a crash during the recovery from a kill.
    public internal(set) var stateCountAfterKills = 0

    /// The kills after which not all states of power cuts were looked at.
    public internal(set) var sampledKillCount = 0

    /// The kills in the middle of a store that were left out, chosen by the seed.
    public internal(set) var skippedKillCount = 0

    /// The moments at which there were too many states to look at all of them.
    public internal(set) var sampledCrashPointCount = 0

    /// Whether every sampled moment saw all states that differ in one thing from all kept or all lost.
    public internal(set) var hasAllSingleDeviations = true

    /// Whether every sampled moment saw all states that differ in two things.
    public internal(set) var hasAllPairDeviations = true

    /// How many states broke a promise.
    public internal(set) var violationCount = 0

    /// The first of them, at most as many as asked for.
    public internal(set) var violations: [CrashViolation] = []

    /// The strictest of the weaker profiles under which there is no violation; nil if there is none, or nothing to ask.
    public internal(set) var weakestSufficientProfile: CrashProfile?

    /// The rules without any one of which there is no violation.
    public internal(set) var responsibleRules: [CrashRule] = []

    /// Whether there is no violation unless a process is killed before the power cut.
    public internal(set) var needsKill = false

    /// The operations that are needed for a violation, where the program was given as a list of operations.
    public internal(set) var shrunkOperations: [String]?

    /// How long it took.
    public internal(set) var duration = Duration.zero

    init(profile: CrashProfile, seed: UInt64) {
        self.profile = profile
        self.seed = seed
    }

    /// Whether all states that the profile allows were looked at, crashes during recovery aside.
    public var isExhaustive: Bool { sampledCrashPointCount == 0 }

    /// Whether all power cuts after all kills of the program were looked at.
    public var isExhaustiveAfterKills: Bool { sampledKillCount == 0 && skippedKillCount == 0 }

    /// Whether no promise was broken.
    public var holds: Bool { violationCount == 0 }

    /// The speed of the exploration.
    public var statesPerSecond: Double {
        let seconds = duration / .seconds(1)
        return seconds > 0 ? Double(stateCount) / seconds : 0
    }

    /// Counts a state that these crashes led to.
    mutating func count(_ kinds: [CrashKind]) {
        stateCount += 1
        guard kinds.count > 1 else { return }
        if kinds.dropLast().contains(.processKill) { stateCountAfterKills += 1 } else { nestedStateCount += 1 }
    }

    /// Notes that a moment is sampled.
    mutating func note(_ states: SampledStates) {
        sampledCrashPointCount += 1
        if !states.hasAllSingles { hasAllSingleDeviations = false }
        if !states.hasAllPairs { hasAllPairDeviations = false }
    }
}

extension CrashReport: CustomStringConvertible {
    public var description: String {
        var coverage = "exhaustive"
        if !isExhaustive {
            coverage = "\(sampledCrashPointCount) of \(crashPointCount) crash points sampled"
            coverage += hasAllSingleDeviations ? " with all single deviations" : " with some single deviations"
            coverage += hasAllPairDeviations ? " and pairs" : " and some pairs"
        }
        var text = """
            \(profile.name), seed \(seed): \(violationCount) violations in \(stateCount) states \
            (\(nestedStateCount) of them of crashes during recovery, \(stateCountAfterKills) after \(killCount) kills) \
            at \(crashPointCount) crash points, \(visitedStateCount) of \(possibleStateCount) possible states visited, \
            \(coverage), \(duration)
            """
        if !isExhaustiveAfterKills {
            text += "\nkills sampled: \(sampledKillCount) with a sample of the power cuts after them"
            text += ", \(skippedKillCount) in the middle of a store left out"
        }
        if !holds {
            if let weakest = weakestSufficientProfile { text += "\nholds under \(weakest.name)" }
            if needsKill { text += "\nholds without kills before the power cut" }
            for rule in responsibleRules { text += "\nholds without: \(rule.rawValue)" }
            if let shrunkOperations { text += "\nneeds only: " + shrunkOperations.joined(separator: "; ") }
        }
        return text + violations.map { "\n\($0)" }.joined()
    }
}

/// A program lost something, or could not recover, after a crash.
public struct CrashFailure: Error, Sendable, CustomStringConvertible {
    /// Everything that the exploration saw.
    public let report: CrashReport

    public var description: String { report.description }
}
