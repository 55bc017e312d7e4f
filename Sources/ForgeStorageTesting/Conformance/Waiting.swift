import ForgeKVStore
import Synchronization

/// How long checks wait.
package enum Waiting {
    /// How long a call that must return may take: far longer than it does, also on a busy machine.
    @TaskLocal package static var limit = Duration.seconds(10)

    /// How long threads race.
    static let race = Duration.milliseconds(6)
}

/// A task that calls `nextSet` of changes, and has begun to wait if there are none yet.
final class WaitingConsumer: Sendable {
    private final class Outcome: Sendable {
        let value = Mutex<Result<KVChangeSet?, KVStoreError>?>(nil)
    }

    private let executor = HeldJobs()
    private let outcome = Outcome()
    private let task: Task<Void, Never>

    /// Begins the call, and returns when it has returned or waits.
    init(of changes: KVChanges) {
        task = Task(executorPreference: executor) { [outcome] in
            var iterator = changes.makeAsyncIterator()
            let result: Result<KVChangeSet?, KVStoreError>
            do throws(KVStoreError) {
                result = .success(try await iterator.nextSet())
            } catch {
                result = .failure(error)
            }
            outcome.value.withLock { $0 = result }
        }
        executor.runAll()
    }

    deinit {
        task.cancel()
        executor.runAll()
    }

    func cancel() { task.cancel() }

    /// The result of the call; nil if it has not returned within the limit.
    func result() async throws -> Result<KVChangeSet?, KVStoreError>? {
        let end = ContinuousClock.now + Waiting.limit
        while true {
            executor.runAll()
            if let result = outcome.value.withLock(\.self) { return result }
            guard ContinuousClock.now < end else { return nil }
            // Some stores report a change on another thread.
            try await Task.sleep(for: .microseconds(200))
        }
    }

    /// The changes that the call has returned; `text` names the call.
    func set(_ text: String, file: StaticString = #fileID, line: UInt = #line) async throws -> KVChangeSet {
        switch try await result() {
        case .success(let set?): return set
        case .success(nil): throw ConformanceViolation("\(text): expected changes, got the end", file: file, line: line)
        case .failure(let error): throw ConformanceViolation("\(text): got \(error)", file: file, line: line)
        case nil:
            throw ConformanceViolation(
                "\(text): expected changes, got none within \(Waiting.limit)", file: file, line: line)
        }
    }
}

/// Runs the jobs of tasks only when it is told to, on the thread that tells it.
private final class HeldJobs: TaskExecutor {
    private let jobs = Mutex<[UnownedJob]>([])

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        jobs.withLock { $0.append(job) }
    }

    /// Returns when each task has ended or waits.
    func runAll() {
        while let job = jobs.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) {
            unsafe job.runSynchronously(on: asUnownedTaskExecutor())
        }
    }
}

/// A value that becomes true once.
final class Flag: Sendable {
    private let value = Atomic(false)

    var isSet: Bool { value.load(ordering: .acquiring) }

    func set() { value.store(true, ordering: .releasing) }
}

/// Where tasks that race wait for each other.
final class RacingTasks: Sendable {
    private let missing: Atomic<Int>

    init(of count: Int) { missing = Atomic(count) }

    /// Returns when all tasks have arrived, or after a second, when the race ends.
    func arrive() async -> ContinuousClock.Instant {
        let end = ContinuousClock.now + .seconds(1)
        missing.subtract(1, ordering: .sequentiallyConsistent)
        while missing.load(ordering: .sequentiallyConsistent) > 0, ContinuousClock.now < end { await Task.yield() }
        return ContinuousClock.now + Waiting.race
    }
}
