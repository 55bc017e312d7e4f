import ArgumentParser
import Dispatch
import ForgeKVStore
import Foundation

private let sent = KVKey<UInt64>("sent")
private let received = KVKey<UInt64>("received")

private func openShared(_ directory: URL) throws -> FileKVStore {
    try FileKVStore(at: directory, options: FileKVStore.Options(sharing: .shared))
}

/// The time of a clock that all processes share, in nanoseconds.
private func now() -> UInt64 { DispatchTime.now().uptimeNanoseconds }

/// Measures the time from a `set` to the change event in another process, and how often that process wakes while nothing
/// changes. Linux. Build it in release: `swift build -c release --product forge-lab`.
struct WakeUpsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "wake-ups", abstract: "Measure change events between processes, and what waiting for them costs.")

    @Option(help: "The number of changes.")
    var sets = 2_000

    @Option(help: "How long nothing changes, in seconds.")
    var idle = 60

    func run() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "wake-ups-\(UUID().uuidString)")
        let store = try openShared(directory)
        let observer = Process()
        observer.executableURL = URL(filePath: CommandLine.arguments[0])
        observer.arguments = ["wake-ups-observer", directory.path]
        try observer.run()
        let reactive = ReactiveKVStore(store)
        for await value in reactive.stream(received) where value != nil { break }
        for _ in 0..<sets {
            // The observer waits again when it is woken.
            usleep(.random(in: 500...1_500))
            try store.set(sent, value: now())
        }
        usleep(1_000_000)
        let other = try processWithoutStore()
        let before = (try switches(of: observer), try switches(of: other))
        usleep(UInt32(idle) * 1_000_000)
        let count = Self.sum(try switches(of: observer), since: before.0)
        let otherCount = Self.sum(try switches(of: other), since: before.1)
        print("idle: \(count) voluntary context switches in \(idle) s; \(otherCount) of a process without a store")
        other.terminate()
        other.waitUntilExit()
        try store.set(sent, value: 0)
        observer.waitUntilExit()
        try store.close()
        try FileManager.default.removeItem(at: directory)
    }

    /// A process that has run a task once: the library of Swift's threads then has a timer of its own on Linux.
    private func processWithoutStore() throws -> Process {
        let process = Process()
        process.executableURL = URL(filePath: CommandLine.arguments[0])
        process.arguments = ["wake-ups-observer"]
        try process.run()
        usleep(7_000_000)  // Its threads without work have ended.
        return process
    }

    private static func sum(_ counts: [String: Int], since before: [String: Int]) -> Int {
        counts.reduce(0) { $0 + $1.value - (before[$1.key] ?? 0) }
    }

    /// How often each thread of a process has begun to wait.
    private func switches(of process: Process) throws -> [String: Int] {
        let tasks = "/proc/\(process.processIdentifier)/task"
        var counts: [String: Int] = [:]
        for thread in try FileManager.default.contentsOfDirectory(atPath: tasks) {
            // Nil for a thread that has ended meanwhile.
            let status = FileManager.default.contents(atPath: "\(tasks)/\(thread)/status")
            let lines = String(decoding: status ?? Data(), as: UTF8.self).split(separator: "\n")
            let line = lines.first { $0.hasPrefix("voluntary_ctxt_switches:") }
            counts[thread] = line?.split(separator: "\t").last.flatMap { Int($0) }
        }
        return counts
    }
}

/// Receives the changes of ``WakeUpsCommand``.
struct WakeUpsObserverCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "wake-ups-observer", shouldDisplay: false)

    @Argument var directory: String?

    func run() async throws {
        guard let directory else {
            await Task.detached {}.value
            let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
            for await _ in stream {}
            return continuation.finish()
        }
        let store = try openShared(URL(filePath: directory, directoryHint: .isDirectory))
        // A stream ends with its store.
        let reactive = ReactiveKVStore(store)
        defer { withExtendedLifetime(reactive) {} }
        var changes = reactive.stream(sent).makeAsyncIterator()
        _ = await changes.next()
        try store.set(received, value: 0)
        var times: [UInt64] = []
        while let value = await changes.next(), value != 0 {
            // Nil is the state before the first change, which may be delivered again.
            if let time = value { times.append(now() - time) }
        }
        times.sort()
        func at(_ share: Double) -> String { "\(times[Int(Double(times.count - 1) * share)] / 1_000) µs" }
        guard !times.isEmpty else { throw ExitCode.failure }
        print("events: \(times.count), median \(at(0.5)), p99 \(at(0.99)), longest \(at(1))")
    }
}
