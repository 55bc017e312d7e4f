import EtcdServers
import Foundation

/// Runs faults on clusters of three members and checks that the store stays linearizable.
///
/// usage: etcd-faults [RUNS] [OPERATIONS] [FAULT...]
@main
struct EtcdFaults {
    static func main() async throws {
        let arguments = CommandLine.arguments.dropFirst()
        let numbers = arguments.compactMap { Int($0) }
        let (runs, operations) = (numbers.first ?? 3, numbers.dropFirst().first ?? 2000)
        let named = arguments.compactMap { Fault(rawValue: $0) }
        let plants = arguments.contains("planted")
        guard named.count + numbers.count + (plants ? 1 : 0) == arguments.count, numbers.count <= 2, runs > 0 else {
            show("usage: etcd-faults [RUNS] [OPERATIONS] [FAULT...]")
            show("faults: \(Fault.allCases.map(\.rawValue).joined(separator: " ")) planted")
            exit(2)
        }
        guard EtcdServer.isInstalled else { exit(1) }
        let isAll = named.isEmpty && !plants
        var sum = FaultTally()
        show(FaultTally.header)
        for fault in isAll ? Fault.allCases : named {
            if fault == .diskFull, !TemporaryDisk.isPermitted {
                show("disk-full: no right to mount a small file system; see quota-exceeded")
                continue
            }
            let tally = try await Self.runs(of: fault, runs, operations)
            sum.add(tally)
            show(tally.row(fault.rawValue))
            for (text, count) in tally.happened.sorted(by: { $0.key < $1.key }) where text != fault.rawValue {
                show("  \(count) × \(text)")
            }
        }
        if sum.runs > 0 { show(sum.row("all")) }
        var isSound = sum.violations.isEmpty && sum.undecided.isEmpty
        if isAll || plants {
            let found = try await findsPlanted(min(runs, 5), operations)
            isSound = isSound && found
        }
        exit(isSound ? 0 : 1)
    }

    /// Prints a line at once, also into a file.
    private static func show(_ line: String) {
        print(line)
        fflush(nil)
    }

    private static func runs(of fault: Fault, _ runs: Int, _ operations: Int) async throws -> FaultTally {
        var cluster = try await fault.cluster()
        var sum = FaultTally()
        for number in 0..<runs {
            var tally = FaultTally()
            do {
                tally = try await FaultRun(fault, cluster, number: number, calls: operations).run()
            } catch {
                // The results of the rest of the run are unknown.
                tally.undecided.append("\(error)")
                cluster = try await fault.cluster()
            }
            for text in (tally.violations + tally.undecided).prefix(5) { show("  \(fault.rawValue): \(text)") }
            sum.add(tally)
        }
        return sum
    }

    /// Whether every run with a planted defect has violations.
    private static func findsPlanted(_ runs: Int, _ operations: Int) async throws -> Bool {
        let cluster = try await Fault.none.cluster()
        var isFound = true
        for plant in FaultRun.Plant.allCases {
            var (sum, found) = (FaultTally(), 0)
            for number in 0..<runs {
                let run = FaultRun(.none, cluster, number: number, calls: operations, plant: plant)
                let tally = try await run.run()
                if !tally.violations.isEmpty { found += 1 }
                sum.add(tally)
            }
            show(sum.row("planted: \(plant.rawValue)"))
            show("  found in \(found) of \(runs) runs")
            isFound = isFound && found == runs
        }
        return isFound
    }
}
