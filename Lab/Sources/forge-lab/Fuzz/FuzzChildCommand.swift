import ArgumentParser
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage

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
