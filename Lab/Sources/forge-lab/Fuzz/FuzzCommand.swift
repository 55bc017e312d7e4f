import ArgumentParser
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage

/// Makes the same random calls on a directory on disk and in memory.
///
/// A child process makes the calls. With privileges it confines itself to a directory by `chroot(2)` and acts as
/// several users; otherwise it uses only paths that cannot leave the directory by their form.
struct FuzzCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fuzz", abstract: "Make the same random calls on the disk and in memory and compare.")

    @Option(help: "The seed of the random calls.") var seed: UInt64 = 1
    @Option(help: "The number of calls to make.") var operations = 200_000
    @Option(help: "The parent of the working directory, which is removed afterwards.") var directory: String?
    @Flag(inversion: .prefixedNo, help: "Shrink a failing sequence before printing it.") var minimise = true

    @Flag(help: "Print the outcomes of each call with their counts.") var outcomes = false

    @Flag(help: "Confine the calls by the form of their paths alone, even with privileges.") var confined = false

    func run() throws {
        let parent = directory.map { URL(fileURLWithPath: $0) } ?? FileManager.default.temporaryDirectory
        let place = parent.appendingPathComponent("forge-fuzz-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: false)
        let child = Process()
        child.executableURL = Bundle.main.executableURL
        child.arguments = [
            "fuzz-child", place.path, "--seed", "\(seed)", "--operations", "\(operations)",
            minimise ? "--minimise" : "--no-minimise",
        ]
        if confined { child.arguments?.append("--confined") }
        if outcomes { child.arguments?.append("--outcomes") }
        try child.run()
        child.waitUntilExit()
        try FileManager.default.removeItem(at: place)
        let isKilled = child.terminationReason == .uncaughtSignal
        if isKilled { print("seed \(seed): the child was killed by signal \(child.terminationStatus)") }
        if isKilled || child.terminationStatus != 0 { throw ExitCode.failure }
    }
}

/// The child process of `fuzz`, which confines itself to its directory permanently.
struct FuzzChildCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fuzz-child", abstract: "The part of fuzz that makes the calls.", shouldDisplay: false)

    @Argument(help: "An empty directory.") var directory: String
    @Option var seed: UInt64
    @Option var operations: Int
    @Flag(inversion: .prefixedNo) var minimise = true
    @Flag var confined = false
    @Flag var outcomes = false

    /// The number of calls on one tree.
    private static let callsPerRound = 400

    func run() throws {
        // Writing to a FIFO without a reader then fails instead of ending the process.
        signal(SIGPIPE, SIG_IGN)
        let probe = FuzzProbe()
        let disk = try DiskSide(directory: directory, locksIn: !confined)
        let limits = try probe.limits(of: disk)
        let memory = try MemorySide(identity: disk.identity, observesAsSuperuser: disk.isLockedIn)
        let duel = FuzzDuel(disk, memory, limits: limits)
        let hasFailed: Bool
        do {
            hasFailed = try play(duel, disk)
        } catch {
            // The first failure is the one to report.
            do { try duel.finish() } catch _ {}
            throw error
        }
        try duel.finish()
        if hasFailed { throw ExitCode.failure }
    }

    /// Runs round after round; returns whether the two sides differ.
    private func play(_ duel: FuzzDuel<DiskSide, MemorySide>, _ disk: DiskSide) throws -> Bool {
        var seeds = SplitMix64(seed: seed)
        let clock = ContinuousClock()
        let start = clock.now
        var made = 0
        var round = 0
        while made < operations {
            let count = min(Self.callsPerRound, operations - made)
            var generator = FuzzGenerator(seed: seeds.next(), limits: duel.limits)
            var calls: [FuzzOperation] = []
            calls.reserveCapacity(count)
            let difference = try duel.play(count) { _ in
                let call = generator.next()
                calls.append(call)
                return call
            } learning: {
                generator.learn($0, $1)
            }
            if let difference {
                try report(difference, in: calls, round: round, duel)
                return true
            }
            made += count
            round += 1
        }
        let seconds = (clock.now - start) / .seconds(1)
        let rate = seconds > 0 ? Int(Double(made) / seconds) : made
        let users = duel.limits.playsUsers ? "\(FuzzIdentity.all.count) users" : "one user"
        print(
            "seed \(seed): \(made) calls on \(round) trees, 0 differences, as \(users)"
                + "\(disk.isLockedIn ? "" : ", confined"), \(Int(seconds * 1000)) ms, \(rate) calls/s")
        print(duel.tally.summary)
        if outcomes { duel.tally.lines.forEach { print($0) } }
        return false
    }

    private func report(
        _ difference: FuzzDifference, in calls: [FuzzOperation], round: Int, _ duel: FuzzDuel<DiskSide, MemorySide>
    ) throws {
        print("seed \(seed), tree \(round), call \(difference.index): \(calls[difference.index])")
        print("  on the disk: \(difference.disk)")
        print("  in memory:   \(difference.memory)")
        let (sequence, last) =
            minimise ? try duel.shrink(calls, difference) : (Array(calls[...difference.index]), difference)
        print(FuzzTestText(name: "seed \(seed), tree \(round)", operations: sequence, difference: last).text)
    }
}

/// The rules of the host that differ from the model; the fuzzer avoids them, and uses the host's names.
struct FuzzLimits: Sendable {
    /// Whether paths must stay below their start by their form alone.
    var isConfined = false
    /// Whether calls can be made as several users.
    var playsUsers = true
    /// Whether reads update the access time as by default on Linux (`relatime`).
    var comparesAccess = true
    /// Whether the mode of a path can be set without following a link at its end.
    var changesLinkModes = true
    /// Whether directories must not be sticky, because the system protects shared ones (`protected_symlinks`).
    var avoidsSharedStickyDirectories = false
    /// Whether opening a device node without a device fails with the error for a missing device.
    var opensDevices = false
    /// The maximum file size, nil where it differs from ext4; no offset beyond a terabyte is tried then.
    var maximumFileSize: Int64? = 17_592_186_040_320
    var owners: [UInt32] = [0, 1234, 1235]
    var groups: [UInt32] = [0, 2345, 3456]
}

/// Counts of calls by operation and outcome, to show that most calls succeed.
struct FuzzTally {
    private struct Outcome: Hashable {
        var operation: String
        /// Nil for success.
        var errno: Errno?
    }

    private var counts: [Outcome: Int] = [:]

    mutating func count(_ operation: FuzzOperation, _ outcome: FuzzOutcome) {
        let errno: Errno? = if case .failed(let errno) = outcome { errno } else { nil }
        counts[Outcome(operation: operation.name, errno: errno), default: 0] += 1
    }

    /// A summary line over all calls.
    var summary: String {
        let all = counts.values.reduce(0, +)
        let successes = counts.filter { $0.key.errno == nil }.values.reduce(0, +)
        let failures = counts.keys.filter { $0.errno != nil }
        return "\(percent(successes, of: all)) of the calls succeeded; \(failures.count) pairs of operation and error, "
            + "\(Set(failures.map(\.errno)).count) errors, \(Set(counts.keys.map(\.operation)).count) operations"
    }

    /// One line per operation: calls, successes, and errors with their counts.
    var lines: [String] {
        Dictionary(grouping: counts, by: \.key.operation).sorted { $0.key < $1.key }.map { operation, outcomes in
            let all = outcomes.reduce(0) { $0 + $1.value }
            let successes = outcomes.first { $0.key.errno == nil }?.value ?? 0
            let errors = outcomes.compactMap { outcome in outcome.key.errno.map { ($0.name, outcome.value) } }
                .sorted { ($1.1, $0.0) < ($0.1, $1.0) }
            return
                (["\(operation): \(all) calls, \(percent(successes, of: all)) succeeded"]
                + errors.map { "\($0.0) \($0.1)" }).joined(separator: ", ")
        }
    }

    private func percent(_ part: Int, of whole: Int) -> String {
        let perMille = whole > 0 ? part * 1000 / whole : 0
        return "\(perMille / 10).\(perMille % 10) %"
    }
}
