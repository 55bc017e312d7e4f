/// The results of an exploration.
public struct CrashReport: Sendable {
    /// The profile whose states were explored.
    public let profile: CrashProfile

    /// The seed of all randomness in the program and in the choice of states.
    public let seed: UInt64

    /// The number of file-system changes that the program made.
    public internal(set) var effectCount = 0

    /// The moments at which a crash was tried: before the first change and after each.
    public internal(set) var crashPointCount = 0

    /// The number of states that the profile allows, before equal ones are merged.
    public internal(set) var possibleStateCount = 0.0

    /// The number of possible states that were visited.
    public internal(set) var visitedStateCount = 0

    /// The number of distinct states recovered from, including those of crashes during recovery.
    public internal(set) var stateCount = 0

    /// The part of ``stateCount`` from crashes during the recovery from a power cut.
    public internal(set) var nestedStateCount = 0

    /// The number of kills followed by a recovery and by power cuts during that recovery.
    public internal(set) var killCount = 0

    /// The part of ``stateCount`` from crashes during the recovery from a kill.
    public internal(set) var stateCountAfterKills = 0

    /// The number of kills after which the power cuts were sampled.
    public internal(set) var sampledKillCount = 0

    /// The number of kills during a store that were skipped, chosen by the seed.
    public internal(set) var skippedKillCount = 0

    /// The number of moments whose states were sampled.
    public internal(set) var sampledCrashPointCount = 0

    /// Whether every sampled moment covered all states that differ in one choice from all kept or all lost.
    public internal(set) var hasAllSingleDeviations = true

    /// Whether every sampled moment covered all states that differ in two choices.
    public internal(set) var hasAllPairDeviations = true

    /// The number of states that violated a promise.
    public internal(set) var violationCount = 0

    /// The first violations, up to the maximum number.
    public internal(set) var violations: [CrashViolation] = []

    /// The strictest weaker profile without violations; nil if there is none or if there are no violations.
    public internal(set) var weakestSufficientProfile: CrashProfile?

    /// The rules each of which is necessary for the violations.
    public internal(set) var responsibleRules: [CrashRule] = []

    /// Whether every violation needs a kill before the power cut.
    public internal(set) var needsKill = false

    /// The operations that a violation needs, if the program was given as a list of operations.
    public internal(set) var shrunkOperations: [String]?

    /// The duration of the exploration.
    public internal(set) var duration = Duration.zero

    init(profile: CrashProfile, seed: UInt64) {
        self.profile = profile
        self.seed = seed
    }

    /// Whether all states that the profile allows were visited, apart from crashes during recovery.
    public var isExhaustive: Bool { sampledCrashPointCount == 0 }

    /// Whether all power cuts after all kills of the program were visited.
    public var isExhaustiveAfterKills: Bool { sampledKillCount == 0 && skippedKillCount == 0 }

    /// Whether no promise was violated.
    public var holds: Bool { violationCount == 0 }

    /// The number of visited states per second.
    public var statesPerSecond: Double {
        let seconds = duration / .seconds(1)
        return seconds > 0 ? Double(stateCount) / seconds : 0
    }

    /// Counts a state reached by these crashes.
    mutating func count(_ kinds: [CrashKind]) {
        stateCount += 1
        guard kinds.count > 1 else { return }
        if kinds.dropLast().contains(.processKill) { stateCountAfterKills += 1 } else { nestedStateCount += 1 }
    }

    /// Records the coverage of a sampled moment.
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

/// A program that lost data or could not recover after a crash.
public struct CrashFailure: Error, Sendable, CustomStringConvertible {
    /// The report of the exploration.
    public let report: CrashReport

    public var description: String { report.description }
}
