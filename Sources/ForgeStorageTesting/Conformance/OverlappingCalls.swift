import Synchronization

/// Calls `write` in tasks of its own, again and again, until every reading task has called `read` often enough and has
/// seen enough changes between two of its calls, so that the calls have overlapped however the tasks are scheduled.
///
/// Where the tasks share a processor, a change shows that a task was interrupted, probably within a call.
///
/// - Parameters:
///   - writers: The number of writing tasks.
///   - readers: The number of reading tasks.
///   - count: How many calls each reading task makes at least; it makes at most 200 times as many.
///   - changes: How many changes each of them sees at least. Many, if most changes are seen without an interruption,
///     because the tasks wait for a lock in turn.
///   - write: Called with the number of the task, and of its call.
///   - read: Called with the number of the task; returns what it has seen.
/// - Throws: The first error of a call, after all tasks have ended.
func overlapping<Seen: Equatable & Sendable>(
    writers: Int, readers: Int, count: Int, changes: Int = defaultChanges,
    write: @escaping @Sendable (_ writer: Int, _ call: Int) async throws -> Void,
    read: @escaping @Sendable (_ reader: Int) async throws -> Seen
) async throws {
    let remaining = Counter(readers)
    try await withThrowingTaskGroup(of: Void.self) { group in
        for writer in 0..<writers {
            group.addTask {
                var call = 0
                while remaining.value.load(ordering: .relaxed) > 0, !Task.isCancelled {
                    try await write(writer, call)
                    call += 1
                }
            }
        }
        for reader in 0..<readers {
            group.addTask {
                defer { remaining.value.subtract(1, ordering: .relaxed) }
                var (calls, seenChanges) = (0, 0)
                var last: Seen?
                while calls < count || seenChanges < changes && calls < 200 * count, !Task.isCancelled {
                    let seen = try await read(reader)
                    if let last, last != seen { seenChanges += 1 }
                    last = seen
                    calls += 1
                }
            }
        }
        try await group.waitForAll()
    }
}

/// After so many changes, a call that is interrupted in two of three cases was not only with a probability of 0.02 %.
private let defaultChanges = 8

/// A task that is interrupted within an attempt is mostly not refused by a store that does not check and change in one
/// step, but accepted in error: before so many refusals, that has happened.
private let requiredRefusals = 4

private final class Counter: Sendable {
    let value: Atomic<Int>

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
        try await group.waitForAll()
    }
    return accepted.value.load(ordering: .relaxed)
}
