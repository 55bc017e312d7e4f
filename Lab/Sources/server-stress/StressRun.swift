import Foundation
import Synchronization

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
