import ArgumentParser
import ForgeKVStore
import Foundation
import Synchronization

/// Prints how long single calls of `set` and `get` take beside compaction, `keys()` and `snapshot()`, and the memory that
/// a snapshot takes.
///
/// The measured thread pauses between its calls, as an app does, so that it does not wait for the processor that it has
/// used up itself. Build it in release, and run it with `chrt -f 5` on a machine that does other work too. The neighbour
/// pauses too, for a fifth of the time: Linux stops the real-time threads of a processor for 50 ms of each second if they
/// do not, and with them the lock that one of them holds.
struct LatenciesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latencies", abstract: "Measure single calls of key-value stores beside lists and compaction.")

    @Argument(help: "Where the stores are made, in a directory of their own.")
    var directory: String

    @Option(help: "The number of keys; 100,000, and then 1,000,000 by default.")
    var keys: Int?

    @Option(help: "The number of measured calls of each kind in a row, at least.")
    var samples = 20_000

    @Option(help: "How often the neighbour is to do its work meanwhile, at least; at most for a minute.")
    var times = 5

    @Option(help: ArgumentHelp("A call of a process of its own on the store in the directory.", visibility: .hidden))
    var alone: Neighbour?

    /// What another thread, or another process, does meanwhile.
    enum Neighbour: String, CaseIterable, ExpressibleByArgument {
        case nothing, compact, keys, snapshot
        case compactInProcess = "compact in a process"

        func call(_ store: FileKVStore) throws {
            switch self {
            case .nothing, .compactInProcess: break
            case .compact: try store.compact()
            case .keys: _ = try store.keys()
            case .snapshot: _ = try store.snapshot()
            }
        }

        func callAndPause(_ store: FileKVStore) throws {
            let start = ContinuousClock.now
            try call(store)
            usleep(UInt32((ContinuousClock.now - start) / .microseconds(4)))
        }
    }

    func run() throws {
        if let alone { return try Self.child(alone, directory) }
        let root = URL(filePath: directory).appending(path: "latencies-\(UUID().uuidString)")
        defer { do { try FileManager.default.removeItem(at: root) } catch { print("\(root.path) is left: \(error)") } }
        for count in keys.map({ [$0] }) ?? [100_000, 1_000_000] {
            for sharing in FileKVStore.Sharing.allCases {
                try measure(count, sharing, at: root.appending(path: "\(count)-\(sharing)"))
            }
            try Self.memory(at: root.appending(path: "\(count)-memory"), count)
        }
    }

    // MARK: Calls

    private func measure(_ count: Int, _ sharing: FileKVStore.Sharing, at directory: URL) throws {
        // Compactions only by the neighbour.
        let options = FileKVStore.Options(sharing: sharing, compactionFloorInBytes: 1 << 40)
        let store = try FileKVStore(at: directory, options: options)
        try Self.fill(store, count)
        let keys = (0..<1_000).map { KVKey<String>(Self.name($0 * (count / 1_000))) }
        print("\n\(sharing), \(count) keys; microseconds")
        print(Self.row("beside", ["", "p50", "p99", "p99.9", "longest"]))
        for neighbour in Neighbour.allCases where neighbour != .compactInProcess || sharing == .shared {
            let work = try Work(neighbour, store, directory)
            var (sets, gets): ([Double], [Double]) = ([], [])
            let latest = ContinuousClock.now + .seconds(60)
            while sets.count < samples || neighbour != .nothing && work.count < times && ContinuousClock.now < latest {
                let key = keys[sets.count % keys.count]
                let start = ContinuousClock.now
                try store.set(key, value: Self.value(sets.count))
                let middle = ContinuousClock.now
                let found = store.get(key)
                let end = ContinuousClock.now
                guard found != nil else { throw Missing(name: key.name) }
                sets.append((middle - start) / .microseconds(1))
                gets.append((end - middle) / .microseconds(1))
                usleep(100)
            }
            let done = try work.end()
            print(Self.row(neighbour.rawValue, ["set"] + Self.quantiles(sets)))
            print(Self.row(neighbour == .nothing ? "" : "  (\(done) times)", ["get"] + Self.quantiles(gets)))
        }
        try store.close()
        try FileManager.default.removeItem(at: directory)
    }

    /// What goes on beside the measured calls.
    private final class Work: Sendable {
        private let isOver = Atomic(false)
        private let done = Atomic(0)
        private let ended = DispatchSemaphore(value: 0)
        private let process: Process?

        init(_ neighbour: Neighbour, _ store: FileKVStore, _ directory: URL) throws {
            guard neighbour == .compactInProcess else {
                process = nil
                Thread.detachNewThread { [self] in
                    defer { ended.signal() }
                    while neighbour != .nothing, !isOver.load(ordering: .relaxed) {
                        do { try neighbour.callAndPause(store) } catch { return print("\(neighbour): \(error)") }
                        done.add(1, ordering: .relaxed)
                    }
                }
                return
            }
            let process = Process()
            let output = Pipe()
            process.executableURL = Bundle.main.executableURL
            process.arguments = ["latencies", directory.path, "--alone", "compact"]
            process.standardOutput = output
            try process.run()
            self.process = process
            let reading = output.fileHandleForReading
            // It has the store open now.
            _ = reading.availableData
            Thread.detachNewThread { [self] in
                defer { ended.signal() }
                // A line for each compaction, until the process has ended.
                while true {
                    let lines = reading.availableData
                    if lines.isEmpty { return }
                    done.add(lines.count { $0 == UInt8(ascii: "\n") }, ordering: .relaxed)
                }
            }
        }

        /// How often the work was done.
        var count: Int { done.load(ordering: .relaxed) }

        func end() throws -> Int {
            isOver.store(true, ordering: .relaxed)
            process?.terminate()
            ended.wait()
            process?.waitUntilExit()
            return count
        }
    }

    private struct Missing: Error {
        let name: String
    }

    private static func name(_ number: Int) -> String { "settings.item.\(number + 10_000_000)" }

    /// Of 30 characters.
    private static func value(_ number: Int) -> String { "the value of item no. \(number + 10_000_000)" }

    private static func fill(_ store: FileKVStore, _ count: Int) throws {
        for start in stride(from: 0, to: count, by: 1_000) {
            var batch = KVBatch()
            for number in start..<min(start + 1_000, count) {
                try batch.set(KVKey<String>(name(number)), value: value(number))
            }
            try store.commit(batch)
        }
        try store.synchronize()
    }

    private static func quantiles(_ samples: [Double]) -> [String] {
        let sorted = samples.sorted()
        return [0.5, 0.99, 0.999, 1].map { share in
            let figure = sorted[min(Int(Double(sorted.count) * share), sorted.count - 1)]
            return "\((figure * 10).rounded() / 10)"
        }
    }

    private static func row(_ title: String, _ cells: [String]) -> String {
        title.padding(toLength: 24, withPad: " ", startingAt: 0)
            + cells.map { String(repeating: " ", count: max(10 - $0.count, 1)) + $0 }.joined()
    }

    // MARK: Memory

    /// Each call in a process of its own, which has loaded the store.
    private static func memory(at directory: URL, _ count: Int) throws {
        let store = try FileKVStore(at: directory)
        try fill(store, count)
        try store.close()
        print("")
        for call in [Neighbour.keys, .snapshot] {
            let process = Process()
            process.executableURL = Bundle.main.executableURL
            process.arguments = ["latencies", directory.path, "--alone", call.rawValue]
            try process.run()
            process.waitUntilExit()
        }
    }

    private static func child(_ call: Neighbour, _ path: String) throws {
        let sharing = call == .compact ? FileKVStore.Sharing.shared : .exclusive
        let store = try FileKVStore(
            at: URL(filePath: path), options: FileKVStore.Options(sharing: sharing, compactionFloorInBytes: 1 << 40))
        if call == .compact {
            FileHandle.standardOutput.write(Data("open\n".utf8))
            while true {
                try call.callAndPause(store)
                FileHandle.standardOutput.write(Data("compacted\n".utf8))
            }
        }
        let before = residentMemory()
        let peak = Peak(above: before)
        let start = ContinuousClock.now
        let names = call == .keys ? try store.keys() : []
        let snapshot = call == .snapshot ? try store.snapshot() : nil
        let time = ContinuousClock.now - start
        let most = peak.end()
        let kept = residentMemory() - before
        print(
            "\(call)(): \(names.count + (snapshot?.count ?? 0)) names in \(Int(time / .milliseconds(1))) ms;",
            "\(kept / 1_000_000) MB more afterwards, at most \(most / 1_000_000) MB more during the call")
    }

    /// The resident memory of this process in bytes; 0 if unknown (Linux only).
    private static func residentMemory() -> Int {
        do {
            let fields = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")
            return (fields.count > 1 ? Int(fields[1]) ?? 0 : 0) * 4_096
        } catch {
            return 0
        }
    }

    /// The highest resident memory, looked at every millisecond.
    private final class Peak: Sendable {
        private let highest = Atomic(0)
        private let isOver = Atomic(false)
        private let ended = DispatchSemaphore(value: 0)

        init(above start: Int) {
            Thread.detachNewThread { [self] in
                while !isOver.load(ordering: .relaxed) {
                    highest.max(LatenciesCommand.residentMemory() - start, ordering: .relaxed)
                    usleep(1_000)
                }
                ended.signal()
            }
        }

        func end() -> Int {
            isOver.store(true, ordering: .relaxed)
            ended.wait()
            return highest.load(ordering: .relaxed)
        }
    }
}
