import CStress
import ForgeKVStore
import Foundation

/// Rounds of one or two seconds, in each of which a store is opened, read by six threads and written by two, compacted,
/// opened a second time, and closed.
struct Run {
    let kind: StoreKind
    let directory: URL
    var deniesMembarrier = false

    private static let readers = 6
    private static let roundInSeconds = 2.0

    struct Denied: Error, CustomStringConvertible {
        let number: Int32
        var description: String { "membarrier cannot be denied: error \(number)" }
    }

    /// Stresses the store for this time; returns the tally and the number of rounds.
    func run(seconds: Double) throws -> (tally: Tally, rounds: Int) {
        let end = Date(timeIntervalSinceNow: seconds)
        var total = Tally()
        var rounds = 0
        while Date() < end, total.isClean {
            try total.add(round(seconds: min(Self.roundInSeconds, end.timeIntervalSinceNow), number: rounds))
            rounds += 1
            if deniesMembarrier, rounds == 1 {
                let failure = stress_deny_membarrier()
                guard failure == 0 else { throw Denied(number: failure) }
            }
        }
        return (total, rounds)
    }

    private func round(seconds: Double, number: Int) throws -> Tally {
        let store = try kind.open(directory)
        for writer in 0..<2 { try Worker.fill(store, as: writer) }
        let crew = Crew()
        for reader in 0..<Self.readers {
            crew.add({ Worker(store, seed: number * 100 + reader) }, { $0.read(store) }, tally: { $0.tally })
        }
        addWriter(0, store, crew)
        let other = try startWriter(1, store, crew, seconds: seconds)
        if let file = store as? FileKVStore {
            crew.add({}) { _ in
                try file.compact()
                Thread.sleep(forTimeInterval: 0.02)
            }
            crew.add({}) { [kind, directory] _ in
                // A second object for the open store.
                let second = try kind.open(directory)
                _ = second.contains(KVKey<Int>("Int.0"))
                Thread.sleep(forTimeInterval: 0.01)
            }
        }
        Thread.sleep(forTimeInterval: max(0, seconds))
        var tally = crew.stop()
        if let other {
            other.waitUntilExit()
            if other.terminationStatus != 0 { tally.note("the writing process ended with \(other.terminationStatus)") }
        }
        return tally
    }

    private func addWriter(_ writer: Int, _ store: any KVStoring, _ crew: Crew) {
        crew.add({ Worker(store, seed: writer) }, { try $0.write(store, as: writer) }, tally: { $0.tally })
    }

    /// Starts the second writer: a thread, or a process for a store that processes share.
    private func startWriter(_ writer: Int, _ store: any KVStoring, _ crew: Crew, seconds: Double) throws -> Process? {
        guard kind == .shared else {
            addWriter(writer, store, crew)
            return nil
        }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: CommandLine.arguments[0])
        process.arguments = ["write", directory.path, "\(max(0, seconds))"]
        try process.run()
        return process
    }

    /// The work of the second process: writes to a store that the first has open.
    static func write(_ directory: URL, seconds: Double) throws {
        let store = try StoreKind.shared.open(directory)
        var worker = Worker(store, seed: 1)
        let end = Date(timeIntervalSinceNow: seconds)
        while Date() < end { try worker.write(store, as: 1) }
    }
}
