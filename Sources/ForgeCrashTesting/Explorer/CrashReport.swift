import ForgeFileSystem

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

/// A state from which a program did not recover as promised.
public struct CrashViolation: Sendable, CustomStringConvertible {
    /// The identifier of the state, for ``CrashExplorer/replay(_:)``.
    public let id: CrashStateID

    /// The error of the recovery, as text.
    public let reason: String

    /// The crashes that lead to the state, in order: of the program, of its recovery and so on.
    public let crashes: [String]

    /// The losses of the last power cut, one line each: the line of the log, the call with its path, and what is missing;
    /// empty for a kill.
    public let losses: [String]

    /// The changes of the run that crashed last, and those of killed runs before it, as numbered lines: the last 40.
    public let log: [String]

    public var description: String {
        "\(id): \(reason), after \(crashes.joined(separator: ", then "))" + losses.map { "\n    \($0)" }.joined()
            + "\n  the log of changes:" + log.map { "\n    \($0)" }.joined()
    }
}

extension CrashState {
    /// The differences from the state before the crash.
    func losses(in space: StateSpace, _ log: CrashLog) -> [String] {
        var lines: [String] = []
        for (change, isMade) in zip(space.undecided, tree.names) where !isMade {
            let half = change.number < 0 ? " (the removal of the old name)" : ""
            lines.append("\(log.line(abs(change.number)))\(half): not done")
        }
        for (file, choice) in zip(tree.undecided, choices) {
            let inode = file.choices.number
            let last = file.choices.last
            let size = file.choices.sizes[choice.size]
            if choice.size != last.size {
                let lost = Int64(size)..<Int64.max
                lines.append(
                    "\(log.lastChange(of: inode, in: lost)): \(log.path(inode)) has \(size) of "
                        + "\(file.choices.sizes[last.size]) bytes")
            }
            if choice.attributes != last.attributes { lines.append("\(log.path(inode)): older attributes") }
            for (place, block) in file.choices.blocks.enumerated() where place < file.choices.visibleBlocks[choice.size]
            {
                guard choice.blocks[place] != last.blocks[place] else { continue }
                let part = block.versions[choice.blocks[place]].part
                let kind =
                    switch (part.lowerBound, part.upperBound) {
                    case (0, BlockHistory.size): "has an older version"
                    case (0, let end): "is torn after \(end) bytes"
                    default: "is torn, bytes \(part.lowerBound)..<\(part.upperBound) are new"
                    }
                let start = Int64(block.number) * Int64(BlockHistory.size)
                let change = log.lastChange(of: inode, in: start..<start + Int64(BlockHistory.size))
                lines.append("\(change): block \(block.number) of \(log.path(inode)) \(kind)")
            }
        }
        return lines
    }
}

/// The changes of a run up to a crash, as numbered lines with paths; made for violations only.
struct CrashLog {
    private struct Line {
        var text: String
        /// The file whose content the change concerns, and the range of it.
        var content: (inode: UInt64, range: Range<Int64>)?
    }

    private var lines: [Line] = []
    private var paths: [UInt64: POSIXPath] = [:]

    /// The log of all changes since the last power cut, the first `effectCount` of `run` included.
    init(_ run: RecordedRun<some Sendable>, effectCount: Int) {
        let nodes = run.start.base.nodes
        if let root = nodes.first { name(root.number, "/", in: nodes) }
        for recorded in run.earlierEffects + run.effects.prefix(effectCount) { append(recorded.effect) }
    }

    private mutating func name(_ inode: UInt64, _ path: POSIXPath, in nodes: [DiskImage.Node]) {
        guard paths[inode] == nil else { return }
        paths[inode] = path
        guard let node = nodes.first(where: { $0.number == inode }), node.isDirectory else { return }
        for entry in node.entries { name(entry.inode, path.appending(entry.name), in: nodes) }
    }

    /// The last known path of a file.
    func path(_ inode: UInt64) -> String { paths[inode].map { "\($0)" } ?? "a file without a name" }

    private func path(_ place: FileSystemEffect.Place) -> POSIXPath {
        (paths[place.directory] ?? "?").appending(place.name)
    }

    private mutating func append(_ effect: FileSystemEffect) {
        var line = Line(text: "")
        switch effect {
        case .create(let node): line.text = node.isDirectory ? "make a directory" : "make a file"
        case .write(let inode, let offset, let bytes, _):
            line.text = "write \(bytes.count) bytes at \(offset) to \(path(inode))"
            line.content = (inode, offset..<offset + Int64(bytes.count))
        case .setSize(let inode, let size, _):
            line.text = "truncate \(path(inode)) to \(size) bytes"
            line.content = (inode, size..<Int64.max)
        case .reserve(let inode, let end, _):
            line.text = "reserve \(end) bytes for \(path(inode))"
            line.content = (inode, 0..<max(end, 1))
        case .store(let inode, let offset, let bytes, _):
            line.text = "store \(bytes.count) bytes at \(offset) in a mapping of \(path(inode))"
            line.content = (inode, offset..<offset + Int64(bytes.count))
        case .writeBack(let inode, let range, let succeeds):
            line.text = "write back \(range) of \(path(inode))" + (succeeds ? "" : ", which fails")
        case .setAttributes(let inode, _): line.text = "set attributes of \(path(inode))"
        case .synchronize(let inode, let level, let succeeds):
            line.text = "synchronize \(path(inode)) (.\(level))" + (succeeds ? "" : ", which fails")
        case .addName(let place, let inode):
            line.text = "\(paths[inode] == nil ? "create" : "link") \(path(place))"
            paths[inode] = path(place)
        case .removeName(let place, _): line.text = "unlink \(path(place))"
        case .moveName(let place, let newPlace, let inode):
            line.text = "rename \(path(place)) to \(path(newPlace))"
            paths[inode] = path(newPlace)
        case .exchangeNames(let place, let inode, let other, let otherInode):
            line.text = "exchange \(path(place)) and \(path(other))"
            paths[inode] = path(other)
            paths[otherInode] = path(place)
        case .mark(let number): line.text = "mark \(number)"
        }
        lines.append(line)
    }

    /// A line by its number, counted from 1: "line 3, unlink /a".
    func line(_ number: Int) -> String {
        guard lines.indices.contains(number - 1) else { return "an earlier change" }
        return "line \(number), \(lines[number - 1].text)"
    }

    /// The last line that has changed content of a file in a range.
    func lastChange(of inode: UInt64, in range: Range<Int64>) -> String {
        let index = lines.lastIndex { line in
            line.content.map { $0.inode == inode && $0.range.overlaps(range) } ?? false
        }
        return index.map { line($0 + 1) } ?? "a change of \(path(inode))"
    }

    /// The last lines, with their numbers.
    var text: [String] {
        let shown = lines.enumerated().suffix(40).map { "\($0.offset + 1). \($0.element.text)" }
        return lines.count > shown.count ? ["…"] + shown : shown
    }
}
