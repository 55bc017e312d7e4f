import ArgumentParser
import Dispatch
import ForgeKVStore
import Foundation
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// A shared store that is opened, used by several threads, and closed beside their calls.
private struct ClosingRound {
    let directory: URL

    /// The key that only one process changes.
    let key: KVKey<Int>

    /// The numbers of the key: the last one that was acknowledged, and the last one that was tried.
    struct Numbers {
        var acknowledged: Int
        var tried: Int
    }

    func options(_ sharing: FileKVStore.Sharing) -> FileKVStore.Options {
        // A log this small is compacted after a few changes.
        FileKVStore.Options(sharing: sharing, compactionFloorInBytes: 300, lockTimeout: .seconds(60))
    }

    /// Opens the store, changes, compacts and lists it on three threads, and closes it meanwhile.
    ///
    /// - Parameters:
    ///   - first: The first number of the key.
    ///   - pause: How long the store is open.
    /// - Returns: The numbers of the key.
    /// - Throws: The errors of opening and closing. The other calls may fail once the store is being closed.
    func run(from first: Int, closingAfter pause: Duration) throws -> Numbers {
        let store = try FileKVStore(at: directory, options: options(.shared))
        let isClosed = Atomic(false)
        let acknowledged = Atomic(first - 1)
        let tried = Atomic(first - 1)
        let group = DispatchGroup()
        for thread in 0..<3 {
            DispatchQueue.global().async(group: group) {
                var number = first
                while !isClosed.load(ordering: .acquiring) {
                    do {
                        switch thread {
                        case 0:
                            tried.store(number, ordering: .relaxed)
                            try store.set(key, value: number)
                            acknowledged.store(number, ordering: .relaxed)
                        case 1:
                            if number.isMultiple(of: 4) {
                                try store.compact()
                            } else {
                                try store.set(KVKey<Int>("shared-\(number % 20)"), value: number)
                            }
                        default: _ = try store.snapshot()
                        }
                    } catch {
                        return
                    }
                    number += 1
                }
            }
        }
        usleep(UInt32(pause / .microseconds(1)))
        defer {
            isClosed.store(true, ordering: .releasing)
            group.wait()
        }
        try store.close()
        isClosed.store(true, ordering: .releasing)
        group.wait()
        return Numbers(acknowledged: acknowledged.load(ordering: .relaxed), tried: tried.load(ordering: .relaxed))
    }

    static func randomPause() -> Duration { .microseconds(Int.random(in: 0..<2_000)) }
}

/// Closes a shared store beside writers, compactions, snapshots and other processes, of which some are killed, and opens
/// it exclusively after each round: that must succeed, with every acknowledged change.
struct ClosingsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "closings", abstract: "Close a shared store in many rounds, with kills, and open it exclusively.")

    @Option(help: "The number of rounds.")
    var rounds = 1_000

    @Option(help: "The number of other processes.")
    var processes = 2

    @Option(help: "Of so many rounds, one in which another process is killed.")
    var killEvery = 3

    func validate() throws {
        guard rounds > 0, processes > 0, killEvery > 0 else { throw ValidationError("the numbers must be positive") }
    }

    func run() throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "closings-\(UUID().uuidString)")
        let round = ClosingRound(directory: directory, key: KVKey<Int>("own"))
        var others = try (0..<processes).map { try Other(number: $0, directory) }
        let start = ContinuousClock.now
        var (next, killCount) = (1, 0)
        for number in 0..<rounds {
            for other in others { try other.begin() }
            let victim = number % killEvery == killEvery - 1 ? others.indices.randomElement() : nil
            let killing = victim.map { Killing(of: others[$0].process) }
            let numbers = try round.run(from: next, closingAfter: ClosingRound.randomPause())
            killing?.wait()
            for index in others.indices where index != victim { try others[index].waitUntilClosed() }
            let store: FileKVStore
            do {
                store = try FileKVStore(at: directory, options: round.options(.exclusive))
            } catch {
                print("round \(number): \(error), in \(directory.path)")
                throw ExitCode.failure
            }
            let found = store.get(round.key) ?? 0
            guard numbers.acknowledged...numbers.tried ~= found else {
                print("round \(number): \(found) instead of \(numbers), in \(directory.path)")
                throw ExitCode.failure
            }
            try store.close()
            next = found + 1
            if let victim {
                killCount += 1
                others[victim] = try Other(number: victim, directory)
            }
        }
        for other in others { other.end() }
        try FileManager.default.removeItem(at: directory)
        let seconds = Int((ContinuousClock.now - start) / .seconds(1))
        print("\(rounds) exclusive openings succeeded, \(killCount) after a kill, 0 changes lost; \(seconds) s")
    }

    /// Another process that has the store open during each round.
    private final class Other {
        let process = Process()
        private let input = Pipe()
        private let output = Pipe()

        init(number: Int, _ directory: URL) throws {
            process.executableURL = Bundle.main.executableURL
            process.arguments = ["closings-process", directory.path, "\(number)"]
            process.standardInput = input
            process.standardOutput = output
            try process.run()
        }

        /// Lets it open the store.
        func begin() throws { try input.fileHandleForWriting.write(contentsOf: Data("\n".utf8)) }

        func waitUntilClosed() throws {
            guard !output.fileHandleForReading.availableData.isEmpty else {
                print("a process that was not killed has ended")
                throw ExitCode.failure
            }
        }

        func end() {
            process.terminate()
            process.waitUntilExit()
        }
    }

    /// The end of a process at a random moment.
    private final class Killing: Sendable {
        private let process: Process
        private let ended = DispatchSemaphore(value: 0)

        init(of process: Process) {
            self.process = process
            let id = process.processIdentifier
            // Nothing else waits for the process before this has.
            Thread.detachNewThread { [self] in
                usleep(.random(in: 0..<3_000))
                kill(id, SIGKILL)
                ended.signal()
            }
        }

        func wait() {
            ended.wait()
            process.waitUntilExit()
        }
    }
}

/// A process of ``ClosingsCommand``: a round for each line on standard input.
struct ClosingsProcessCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "closings-process", shouldDisplay: false)

    @Argument var directory: String
    @Argument var number: Int

    func run() throws {
        let round = ClosingRound(
            directory: URL(filePath: directory, directoryHint: .isDirectory), key: KVKey<Int>("process-\(number)"))
        while readLine() != nil {
            _ = try round.run(from: 0, closingAfter: ClosingRound.randomPause())
            FileHandle.standardOutput.write(Data("closed\n".utf8))
        }
    }
}
