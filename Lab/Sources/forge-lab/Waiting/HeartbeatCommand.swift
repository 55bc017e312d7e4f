import ArgumentParser
import Crypto
import ForgeCrypt
import ForgeFileStore
import ForgeFileSystem
import ForgeStorage
import Foundation
import Synchronization
import SystemPackage

/// Measures what calls that cannot go on cost Swift's tasks and another store.
///
/// A heartbeat of 20 milliseconds and saves in a second store run beside 200 calls on a directory that another program
/// locks, or on a volume that is frozen. Build it in release: `swift build -c release --product forge-lab`.
struct HeartbeatCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "heartbeat", abstract: "Measure what waiting calls cost Swift's tasks and other stores.")

    @Option(help: "The directory where a volume is mounted, which is frozen with fsfreeze(8); root is needed.")
    var volume: String?

    @Option(help: "How long the calls wait, in seconds.")
    var seconds = 5.0

    @Option(help: "The longest permitted gap of the heartbeat, in milliseconds.")
    var limit = 60.0

    func run() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "heartbeat-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let quiet = try await measured(in: directory, beside: nil)
        print(quiet.line("nothing"))
        var isWithin = true
        for calls in Calls.allCases {
            let beside = try await measured(in: directory, beside: (calls, DirectoryBlock.self))
            print(beside.line("200 calls of \(calls.rawValue) on a locked directory"))
            isWithin = isWithin && beside.isWithin(limit, quiet)
            guard let volume else { continue }
            let frozen = try await measured(in: URL(filePath: volume), beside: (calls, FrozenVolume.self))
            print(frozen.line("200 calls of \(calls.rawValue) on a frozen volume"))
            isWithin = isWithin && frozen.isWithin(limit, quiet)
        }
        try FileManager.default.removeItem(at: directory)
        if !isWithin { throw ExitCode.failure }
    }

    // MARK: Calls that wait

    enum Calls: String, CaseIterable {
        case files, vaults, caches
    }

    private func measured(in root: URL, beside blocked: (Calls, any Block.Type)?) async throws -> Measurement {
        let own = FileManager.default.temporaryDirectory.appending(path: "heartbeat-own-\(UUID().uuidString)")
        let second = DiskFileStore(root: own, options: FileStoreOptions(durability: .none))
        try await second.save(Data(), to: "file")
        var block: (any Block)?
        var waiting: (@Sendable () async -> Void)?
        let ended = EndedCalls()
        if let (calls, kind) = blocked {
            let stuck = root.appending(path: "\(calls.rawValue)-\(UUID().uuidString)")
            let start = try await prepared(calls, stuck, ended)
            block = try kind.init(stuck, volume: root)
            waiting = start
        }
        let begun = waiting.map { start in Task { await start() } }
        var measurement = try await Measurement.make(seconds: seconds, store: second)
        measurement.endedCount = ended.count.load(ordering: .relaxed)
        try block?.end()
        await begun?.value
        try FileManager.default.removeItem(at: own)
        return measurement
    }

    /// Makes the stores, and returns what starts 200 calls and waits for their ends, whatever these are.
    private func prepared(
        _ calls: Calls, _ directory: URL, _ ended: EndedCalls
    ) async throws -> @Sendable () async -> Void {
        switch calls {
        case .files:
            let store = DiskFileStore(root: directory)
            try await store.save(Data(), to: "file")
            return {
                await withTaskGroup { group in
                    for number in 0..<200 {
                        group.addTask {
                            do { try await store.save(Data(), to: "\(number % 8)") } catch {}
                            ended.count.add(1, ordering: .relaxed)
                        }
                    }
                }
            }
        case .vaults:
            // Synchronous calls: from threads of the caller's own.
            let vault = try VaultCrypt(at: directory.appending(path: "vault"), key: SymmetricKey(size: .bits256))
            try vault.set("a", for: CryptKey(key: "a"))
            return {
                await onThreads(200) { number in
                    do { try vault.set("b", for: CryptKey(key: "\(number)")) } catch {}
                    ended.count.add(1, ordering: .relaxed)
                }
            }
        case .caches:
            let cache = try BoundedCache<Data>(directory: directory, coding: .bytes)
            await cache.insert(Data(), for: "a")
            return {
                await withTaskGroup { group in
                    for number in 0..<200 {
                        group.addTask {
                            await cache.insert(Data(), for: "\(number)")
                            ended.count.add(1, ordering: .relaxed)
                        }
                    }
                }
            }
        }
    }

    private func onThreads(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) async {
        await withTaskGroup { group in
            for number in 0..<count {
                group.addTask {
                    await withCheckedContinuation { continuation in
                        Thread {
                            body(number)
                            continuation.resume()
                        }.start()
                    }
                }
            }
        }
    }
}

/// The calls that have ended while the others are kept from going on.
private final class EndedCalls: Sendable {
    let count = Atomic(0)
}

/// What keeps calls from going on.
private protocol Block {
    init(_ directory: URL, volume: URL) throws
    func end() throws
}

/// The locks of a directory and of the vaults in it, held as another program would hold them.
private struct DirectoryBlock: Block {
    private var descriptors: [Descriptor] = []

    init(_ directory: URL, volume: URL) throws {
        let path = try POSIXPath(directory)
        let system = SystemFileSystem()
        descriptors = [try system.open(path, .readOnly, options: [.directory], permissions: [])]
        let lock = path.appending("#lock-vaults")
        if FileManager.default.fileExists(atPath: String(lock)) {
            descriptors.append(try system.open(lock, .readWrite, options: [], permissions: []))
        }
        for descriptor in descriptors { try system.lock(descriptor, .exclusive, waiting: false) }
    }

    func end() { for descriptor in descriptors { SystemFileSystem().discard(descriptor) } }
}

/// A volume whose writes wait.
private struct FrozenVolume: Block {
    private let volume: URL

    init(_ directory: URL, volume: URL) throws {
        self.volume = volume
        try Self.freeze("-f", volume)
    }

    func end() throws { try Self.freeze("-u", volume) }

    private static func freeze(_ option: String, _ volume: URL) throws {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["fsfreeze", option, volume.path]
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw ExitCode.failure }
    }
}

/// The gaps of a heartbeat and the times of saves in a store.
private struct Measurement {
    private var gap = Duration.zero
    private var saves: [Duration] = []
    var endedCount = 0

    static func make(seconds: Double, store: DiskFileStore) async throws -> Measurement {
        var result = Measurement()
        let end = ContinuousClock.now + .seconds(seconds)
        let heartbeat = Task {
            var longest = Duration.zero
            var last = ContinuousClock.now
            while ContinuousClock.now < end {
                try await Task.sleep(for: .milliseconds(20))
                let now = ContinuousClock.now
                (longest, last) = (max(longest, now - last), now)
            }
            return longest
        }
        while ContinuousClock.now < end {
            let start = ContinuousClock.now
            try await store.save(Data(count: 100), to: "file")
            result.saves.append(ContinuousClock.now - start)
            try await Task.sleep(for: .milliseconds(5))
        }
        result.gap = try await heartbeat.value
        result.saves.sort()
        return result
    }

    private var median: Duration { saves[saves.count / 2] }

    func isWithin(_ limit: Double, _ quiet: Measurement) -> Bool {
        gap <= .milliseconds(limit) && median <= quiet.median * 2
    }

    func line(_ name: String) -> String {
        func text(_ duration: Duration) -> String { "\(Int(duration / .microseconds(1))) µs" }
        return """
            beside \(name), \(endedCount) of which ended: longest gap \(Int(gap / .milliseconds(1))) ms; saves in the \
            second store: \(saves.count), \
            median \(text(median)), p99 \(text(saves[saves.count * 99 / 100])), longest \(text(saves[saves.count - 1]))
            """
    }
}
