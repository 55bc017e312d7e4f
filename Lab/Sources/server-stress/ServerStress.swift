import EtcdServers
import ForgeEtcd
import ForgeS3
import Foundation
import S3Servers
import Synchronization

/// Calls a store on a server from many tasks, and checks its promises and its use of resources.
///
/// usage: server-stress etcd|s3 [TASKS] [SECONDS]
@main
struct ServerStress {
    static func main() async {
        let arguments = CommandLine.arguments.dropFirst()
        let numbers = arguments.dropFirst().compactMap { Int($0) }
        let run = StressRun(tasks: numbers.first ?? 2000, seconds: numbers.dropFirst().first ?? 300)
        do {
            switch arguments.first {
            case "etcd": try await etcd(run)
            case "s3": try await s3(run)
            default:
                print("usage: server-stress etcd|s3 [TASKS] [SECONDS]")
                exit(2)
            }
        } catch {
            print("\(error)")
            exit(1)
        }
    }

    private static func etcd(_ run: StressRun) async throws {
        guard EtcdServer.isInstalled else { exit(1) }
        let server = try await EtcdServer.started(["--quota-backend-bytes", "8589934592"])
        var configuration = EtcdKVStore.Configuration(endpoints: [server.endpoint])
        configuration.deadline = .seconds(120)
        let stress = EtcdStress(try EtcdKVStore(configuration), run)
        try await run.run({ await stress.call($0) }, then: { try await stress.check() })
        print("etcd: clean")
    }

    private static func s3(_ run: StressRun) async throws {
        guard MotoServer.isInstalled else { exit(1) }
        let server = try await MotoServer.shared()
        var configuration = S3FileStore.Configuration(
            bucket: MotoServer.bucket, region: "us-east-1", credentials: .values(server.credentials),
            endpoint: server.endpoint)
        configuration.deadline = .seconds(300)
        let stress = S3Stress(try S3FileStore(configuration), run)
        try await run.run({ await stress.call($0) }, then: { try await stress.check() })
        print("s3: clean")
    }
}

/// Many tasks that call a store for a time. Some calls are cancelled at a random moment.
final class StressRun: Sendable {
    struct Failed: Error {
        var reason: String
    }

    /// The outcomes of calls by a word, such as the code of an error.
    private let outcomes = Mutex<[String: Int]>([:])
    private let problems = Mutex<[String]>([])
    private let runningCount: Atomic<Int>
    private let taskCount: Int
    private let end: ContinuousClock.Instant
    private let start = ContinuousClock.now

    init(tasks: Int, seconds: Int) {
        taskCount = tasks
        runningCount = Atomic(tasks)
        end = start + .seconds(seconds)
    }

    /// Notes an outcome that the store promises.
    func count(_ outcome: String) { outcomes.withLock { $0[outcome, default: 0] += 1 } }

    /// Notes a broken promise.
    func report(_ problem: String) { problems.withLock { $0.append(problem) } }

    /// Runs the tasks until the time is over, and then `check`. Prints the use of resources every ten seconds.
    ///
    /// - Parameters:
    ///   - call: Makes one random call of a task, and notes its outcome.
    ///   - check: Compares the store with the outcomes, then closes it.
    /// - Throws: ``Failed`` if a call does not end, a promise was broken, or descriptors or memory leak.
    func run(
        _ call: @escaping @Sendable (_ task: Int) async -> Void, then check: @escaping @Sendable () async throws -> Void
    ) async throws {
        let before = try ProcessUsage.now()
        print("before: \(before)")
        let monitor = Task { try await self.monitor() }
        await withDiscardingTaskGroup { group in
            for task in 0..<taskCount {
                group.addTask {
                    while ContinuousClock.now < self.end { await self.perform { await call(task) } }
                    self.runningCount.subtract(1, ordering: .relaxed)
                }
            }
        }
        monitor.cancel()
        let usage = try await monitor.value
        try await check()
        // Connections close asynchronously.
        try await Task.sleep(for: .seconds(3))
        let after = try ProcessUsage.now()
        print("after: \(after)")
        let counts = outcomes.withLock { $0 }.sorted { $0.key < $1.key }
        for (outcome, count) in counts { print("  \(count) × \(outcome)") }
        for problem in problems.withLock({ $0 }).prefix(10) { print("  \(problem)") }
        guard problems.withLock({ $0.isEmpty }) else { throw Failed(reason: "a promise was broken") }
        guard after.descriptors <= before.descriptors + 8 else { throw Failed(reason: "descriptors leak") }
        // The first third fills pools and caches.
        let warm = usage.dropFirst(usage.count / 3).first?.memory
        if let warm, let last = usage.last?.memory, last > warm + warm / 4 + 16 {
            throw Failed(reason: "memory has grown from \(warm) to \(last) MiB")
        }
    }

    /// Runs a call, and cancels one in eight after up to 20 ms.
    private func perform(_ call: @escaping @Sendable () async -> Void) async {
        guard Int.random(in: 0..<8) == 0 else { return await call() }
        let task = Task { await call() }
        do { try await Task.sleep(for: .microseconds(Int.random(in: 0..<20_000))) } catch {}
        task.cancel()
        await task.value
    }

    private func monitor() async throws -> [ProcessUsage] {
        var usage: [ProcessUsage] = []
        var next = start + .seconds(10)
        while !Task.isCancelled {
            do { try await Task.sleep(until: next) } catch { break }
            usage.append(try ProcessUsage.now())
            let running = runningCount.load(ordering: .relaxed)
            print("\((next - start).components.seconds) s: \(usage[usage.count - 1]), \(running) tasks")
            fflush(nil)
            guard next < end + .seconds(300) else {
                print("\(running) calls do not end")
                exit(1)
            }
            next += .seconds(10)
        }
        return usage
    }
}

/// The value that each task has stored under a name of its own, which no other task writes.
final class OwnValues: Sendable {
    private struct Values {
        var acknowledged: Int?

        /// Values of writes with unknown outcomes, which may take effect at any later moment. Nil stands for a removal.
        var unknown: Set<Int?> = []

        func contain(_ value: Int?) -> Bool { value == acknowledged || unknown.contains(value) }
    }

    private let values = Mutex<[Int: Values]>([:])

    var tasks: [Int] { values.withLock { Array($0.keys) } }

    /// Reports a value that the task has not stored.
    func check(_ task: Int, _ value: Int?, _ run: StressRun) {
        let isRight = values.withLock { $0[task, default: Values()].contain(value) }
        if !isRight { run.report("own/\(task) is \(value.map(String.init) ?? "absent")") }
    }

    /// Makes a write and notes its value, or with nil its removal.
    func note(
        _ task: Int, _ value: Int?, isUnknown: (any Error) -> Bool, _ write: () async throws -> Void
    ) async throws {
        do {
            try await write()
            values.withLock { $0[task, default: Values()].acknowledged = value }
        } catch {
            if isUnknown(error) { values.withLock { _ = $0[task, default: Values()].unknown.insert(value) } }
            throw error
        }
    }
}

/// The resources that this process uses now.
struct ProcessUsage: Sendable {
    /// The number of open descriptors, connections included.
    var descriptors: Int

    /// The resident memory in MiB; nil where the system has no `/proc`.
    var memory: Int?

    static func now() throws -> ProcessUsage {
        let descriptors = try FileManager.default.contentsOfDirectory(atPath: "/dev/fd").count
        let pages = FileManager.default.contents(atPath: "/proc/self/statm").flatMap {
            Int(String(decoding: $0, as: UTF8.self).split(separator: " ").dropFirst().first ?? "")
        }
        return ProcessUsage(descriptors: descriptors, memory: pages.map { ($0 * Int(getpagesize())) >> 20 })
    }
}

extension ProcessUsage: CustomStringConvertible {
    var description: String { "\(descriptors) descriptors\(memory.map { ", \($0) MiB" } ?? "")" }
}
