import ForgeKVStore
import Foundation
import Synchronization

/// Calls `write` in tasks of its own, again and again, until each reading task has made enough calls of `read` that have
/// overlapped with a call of `write`, however the tasks are scheduled.
///
/// - Parameters:
///   - writers: The number of writing tasks.
///   - readers: The number of reading tasks.
///   - overlaps: How many calls of each reading task overlap, each with another call of `write`. If there are fewer within
///     a second, as on a single thread, the task ends all the same.
///   - pausing: Whether the writers pause between two calls in the second half, for reads that take longer than a write:
///     where all take a lock, the tasks may take turns, so that no read is interrupted by a writer that never pauses.
///   - write: Called with the number of the task, and of its call.
///   - read: Called with the number of the task.
/// - Throws: The first error of a call, after all tasks have ended.
func overlapping(
    writers: Int, readers: Int, overlaps: Int, pausing: Bool = false,
    write: @escaping @Sendable (_ writer: Int, _ call: Int) async throws -> Void,
    read: @escaping @Sendable (_ reader: Int) async throws -> Void
) async throws {
    let (begun, ended, seen, remaining) = (Counter(0), Counter(0), Counter(0), Counter(readers))
    let reads = Counter(0)
    let end = ContinuousClock.now + .seconds(1)
    try await withThrowingTaskGroup(of: Void.self) { group in
        for writer in 0..<writers {
            group.addTask {
                var (call, firstOfRead, read) = (0, 0, 0)
                while remaining.value.load(ordering: .relaxed) > 0, !Task.isCancelled {
                    begun.value.add(1, ordering: .sequentiallyConsistent)
                    try await write(writer, call)
                    ended.value.add(1, ordering: .sequentiallyConsistent)
                    call += 1
                    if reads.now != read { (read, firstOfRead) = (reads.now, call) }
                    if pausing, seen.now * 2 >= readers * overlaps {
                        try await Task.sleep(for: .microseconds(50))
                    } else if call.isMultiple(of: 16) {
                        // The readers may need the thread.
                        await Task.yield()
                    }
                    // Where other programs use the processors, a reader may wait for one for long.
                    while call - firstOfRead >= writesOfRead, reads.now == read, remaining.now > 0 {
                        try await Task.sleep(for: .microseconds(50))
                    }
                }
            }
        }
        for reader in 0..<readers {
            group.addTask {
                defer { remaining.value.subtract(1, ordering: .relaxed) }
                var (calls, overlapCount) = (0, 0)
                var last = -1
                while overlapCount < overlaps, !Task.isCancelled {
                    guard calls < 20 * overlaps || ContinuousClock.now < end else { return }
                    let before = (ended: ended.now, begun: begun.now)
                    reads.value.add(1, ordering: .sequentiallyConsistent)
                    let start = ContinuousClock.now
                    try await read(reader)
                    calls += 1
                    if before.begun > before.ended || ended.now > before.ended, before.ended != last {
                        overlapCount += 1
                        seen.value.add(1, ordering: .relaxed)
                        last = before.ended
                        shift(by: overlapCount, of: start.duration(to: .now))
                    } else {
                        interruptOthers()
                    }
                }
            }
        }
        // The first error cancels the other tasks.
        while try await group.next() != nil {}
    }
}

/// How many calls each writing task makes before it waits for another call of a reading task.
private let writesOfRead = 8

/// Blocks the thread for a short time. Where tasks share a processor, the timer that ends this interrupts another one within
/// a call, long before its time slice ends; a call that follows at once would overlap with nothing.
func interruptOthers() {
    usleep(20)
}

/// Calls `body` on threads of its own, of which more run side by side than tasks do.
///
/// - Parameters:
///   - count: The number of threads.
///   - body: Called with the number of the thread.
/// - Throws: The first error of a thread, after all have ended.
func racing(threads count: Int, _ body: @escaping @Sendable (_ thread: Int) throws -> Void) async throws {
    let (remaining, failures) = (Counter(count), Failures())
    await withCheckedContinuation { continuation in
        for number in 0..<count {
            let thread = Thread {
                do {
                    try body(number)
                } catch {
                    failures.append(error)
                }
                let left = remaining.value.subtract(1, ordering: .sequentiallyConsistent).newValue
                if left == 0 { continuation.resume() }
            }
            thread.start()
        }
    }
    if let error = failures.first { throw error }
}

/// Passes an eighth of the duration of a call, two eighths after the next call, and so on: calls of equal duration would
/// otherwise overlap at the same steps again and again.
private func shift(by number: Int, of duration: Duration) {
    let end = ContinuousClock.now + min(duration, .milliseconds(1)) * (number % 8) / 8
    while ContinuousClock.now < end { sched_yield() }
}

/// A task that is interrupted within an attempt is mostly not refused by a store that does not check and change in one
/// step, but accepted in error: before so many refusals, that has happened.
private let requiredRefusals = 4

private final class Counter: Sendable {
    let value: Atomic<Int>

    var now: Int { value.load(ordering: .sequentiallyConsistent) }

    init(_ value: Int) { self.value = Atomic(value) }
}

/// Calls `attempt` in several tasks, again and again, until enough attempts were refused because another task was faster.
///
/// - Parameters:
///   - tasks: The number of tasks.
///   - attempt: Returns whether it was accepted.
/// - Returns: The number of accepted attempts.
/// - Throws: The first error of an attempt, after all tasks have ended.
func competing(tasks: Int, attempt: @escaping @Sendable () async throws -> Bool) async throws -> Int {
    let (accepted, refused) = (Counter(0), Counter(0))
    try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<tasks {
            group.addTask {
                var calls = 0
                while refused.value.load(ordering: .relaxed) < requiredRefusals || calls < 10 {
                    guard calls < 2_000, !Task.isCancelled else { return }
                    let counter = try await attempt() ? accepted : refused
                    counter.value.add(1, ordering: .relaxed)
                    calls += 1
                }
            }
        }
        // The first error cancels the other tasks.
        while try await group.next() != nil {}
    }
    return accepted.value.load(ordering: .relaxed)
}

/// A place where two threads wait for each other, if they arrive within a short time.
final class CheckMeeting: Sendable {
    private let arrived = Atomic<Int>(0)

    /// Arrives, and waits until as many threads have.
    func arrive(waitingFor count: Int = 2) {
        arrived.add(1, ordering: .sequentiallyConsistent)
        wait(for: count)
    }

    /// Waits until so many threads have arrived.
    func wait(for count: Int) {
        let end = ContinuousClock.now + .milliseconds(20)
        // A store that decodes under a lock lets one thread in at a time.
        while arrived.load(ordering: .sequentiallyConsistent) < count, ContinuousClock.now < end { interruptOthers() }
    }
}

/// A value whose decoding waits until another thread arrives too, such as one that decodes another value.
struct CheckMeetingValue: Codable, Sendable {
    @TaskLocal static var meeting: CheckMeeting?

    let number: Int

    init(number: Int) { self.number = number }

    init(from decoder: any Decoder) throws {
        Self.meeting?.arrive()
        number = try decoder.singleValueContainer().decode(Int.self)
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(number)
    }
}

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

/// A value that becomes true once.
final class Flag: Sendable {
    private let value = Atomic(false)

    var isSet: Bool { value.load(ordering: .acquiring) }

    func set() { value.store(true, ordering: .releasing) }
}
