import Dispatch
import ForgeFileSystem
import Foundation
import Synchronization

// Memory safety: Only the task of a check uses its subject until it ends.

/// A promise of a protocol, as a value that any test framework, or none, can check.
///
/// ```swift
/// @Test(arguments: ConformanceChecks.keyValueStore)
/// func conforms(_ check: ConformanceCheck<any KVStoring>) async throws {
///     try await check.run(on: MyStore())
/// }
/// ```
public struct ConformanceCheck<Subject>: Sendable, CustomStringConvertible {
    /// The promise, as a sentence: "a removed key is absent".
    public let description: String

    /// The capabilities that an implementation needs for the promise to apply; usually none.
    public private(set) var needs: Set<ConformanceCapability>

    private let body: @Sendable (Subject) async throws -> Void

    /// Creates a check.
    ///
    /// - Parameters:
    ///   - description: The promise, as a sentence.
    ///   - needs: The capabilities that the check needs.
    ///   - body: Throws a ``ConformanceViolation`` if the subject breaks the promise.
    public init(
        _ description: String, needs: Set<ConformanceCapability> = [],
        _ body: @escaping @Sendable (_ subject: Subject) async throws -> Void
    ) {
        self.description = description
        self.needs = needs
        self.body = body
    }

    /// The same check with more needed capabilities.
    public func needing(_ capabilities: ConformanceCapability...) -> ConformanceCheck {
        var check = self
        check.needs.formUnion(capabilities)
        return check
    }

    /// The same check for another kind of subject that contains, or is, one of this kind.
    func on<Other>(
        _ subject: @escaping @Sendable (_ other: Other) -> Subject
    ) -> ConformanceCheck<Other> {
        ConformanceCheck<Other>(description, needs: needs) { [body] other in try await body(subject(other)) }
    }

    /// Runs the check on a new, empty subject.
    ///
    /// A check that does not end within the limit is cancelled and reported as a violation; it may still be running then,
    /// so the subject must not be used any more. The check runs on a thread of its own, not in Swift's pool: a call that
    /// blocks its thread for ever does not prevent the report. Where a test framework starts all checks together, they
    /// begin one after the other, a few at once; their limits begin when they do.
    ///
    /// - Parameters:
    ///   - subject: The implementation.
    ///   - limit: The maximum duration of the check.
    ///   - clock: The clock that measures the limit.
    /// - Throws: A ``ConformanceViolation`` that begins with the promise, also for an unexpected error of the subject and
    ///   at the end of the time limit; `CancellationError` if the task is cancelled.
    public func run(
        on subject: Subject, within limit: Duration = .seconds(120), on clock: any Clock<Duration> = ContinuousClock()
    ) async throws {
        // Only the task of the check uses the subject until it ends.
        nonisolated(unsafe) let subject = subject
        let place = await StartingChecks.shared.takePlace()
        let trace = CallTrace()
        let failure = await CheckRun.failure(within: limit, on: clock, trace) { [body] in
            try await CallTrace.$current.withValue(trace) { try await unsafe body(subject) }
        }
        place.giveBack()
        switch failure {
        case nil: return
        case is CancellationError where Task.isCancelled: throw CancellationError()
        case let error?: throw ConformanceViolation(trace.description(of: error), of: description)
        }
    }
}

/// A broken promise.
public struct ConformanceViolation: Error, Sendable, CustomStringConvertible {
    /// The promise, once a check has thrown the violation; then what was called and expected, and what came; then the
    /// place of the call in the source of the checks.
    public private(set) var description: String

    /// Creates a violation.
    ///
    /// - Parameters:
    ///   - description: The call with its arguments, the expected and the actual behaviour.
    ///   - file: The file of the check.
    ///   - line: The line of the call.
    public init(_ description: String, file: StaticString = #fileID, line: UInt = #line) {
        self.description = "\(description) (\(file):\(line))"
    }

    fileprivate init(_ description: String, of promise: String) {
        self.description = "\(promise): \(description)"
    }

    /// The same violation with more text.
    func adding(_ text: String) -> ConformanceViolation {
        var violation = self
        violation.description += text
        return violation
    }
}

/// The published lists of checks by protocol.
public enum ConformanceChecks {}

/// A check that runs, and its time limit: the first of both to end decides.
private final class CheckRun: Sendable {
    private struct State {
        var continuation: CheckedContinuation<(any Error)?, Never>?
        var tasks: [Task<Void, Never>] = []
        var hasEnded = false
    }

    private let state = Mutex(State())

    /// Runs `body`; returns its error, or a violation at the end of the time limit.
    static func failure(
        within limit: Duration, on clock: any Clock<Duration>, _ trace: CallTrace,
        _ body: @escaping @Sendable () async throws -> Void
    ) async -> (any Error)? {
        let run = CheckRun()
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                guard run.begin(continuation) else { return continuation.resume(returning: CancellationError()) }
                run.start {
                    do {
                        try await body()
                        run.end(nil)
                    } catch {
                        run.end(error)
                    }
                }
                run.start {
                    do { try await clock.sleep(for: limit) } catch { return }
                    run.end(trace.violation(atEndOf: limit))
                }
            }
        } onCancel: {
            run.end(CancellationError())
        }
    }

    /// Whether the task has not been cancelled yet.
    private func begin(_ continuation: CheckedContinuation<(any Error)?, Never>) -> Bool {
        state.withLock { state in
            if !state.hasEnded { state.continuation = continuation }
            return !state.hasEnded
        }
    }

    private func start(_ body: @escaping @Sendable () async -> Void) {
        let task = Task(executorPreference: ThreadsOfChecks.shared) { await body() }
        let hasEnded = state.withLock { state in
            state.tasks.append(task)
            return state.hasEnded
        }
        if hasEnded { task.cancel() }
    }

    /// Ends the run once, and cancels what is left of it.
    private func end(_ error: (any Error)?) {
        let (continuation, tasks) = state.withLock { state in
            defer { state = State(hasEnded: true) }
            return (state.continuation, state.tasks)
        }
        for task in tasks { task.cancel() }
        continuation?.resume(returning: error)
    }
}

/// The start of checks: one for each processor, although test frameworks start all of them together.
///
/// A check that has run for a tenth of a second counts no longer, so one that waits or hangs delays the others no
/// further.
private final class StartingChecks: Sendable {
    static let shared = StartingChecks()

    private struct State {
        var free = ProcessInfo.processInfo.activeProcessorCount
        var waiting = FIFOQueue<CheckedContinuation<Void, Never>>()
    }

    /// A check that counts until it ends, or has run for a tenth of a second.
    final class Place: Sendable {
        private let isTaken = Mutex(true)

        func giveBack() {
            let wasTaken = isTaken.withLock { isTaken in
                defer { isTaken = false }
                return isTaken
            }
            if wasTaken { StartingChecks.shared.startNext() }
        }
    }

    private let state = Mutex(State())

    /// Waits until a check may start.
    func takePlace() async -> Place {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                guard state.free > 0 else {
                    _ = state.waiting.append(continuation)
                    return false
                }
                state.free -= 1
                return true
            }
            if isFree { continuation.resume() }
        }
        let place = Place()
        DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(100)) { place.giveBack() }
        return place
    }

    private func startNext() {
        let next = state.withLock { state in
            let next = state.waiting.popFirst()
            if next == nil { state.free += 1 }
            return next
        }
        next?.resume()
    }
}

/// Threads outside of Swift's pool, which blocked checks would use up.
private final class ThreadsOfChecks: TaskExecutor {
    static let shared = ThreadsOfChecks()

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        // A serial queue gets a thread at once, however many are blocked; a concurrent one waits for a free processor.
        DispatchQueue(label: "ConformanceCheck").async { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

/// Runs the jobs of tasks only in `runAll`, on the thread that calls it.
final class HeldJobs: TaskExecutor {
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

/// Calls `body` in a task that is cancelled already.
func inCancelledTask(_ body: @escaping @Sendable () async throws -> Void) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.cancelAll()
        group.addTask { try await body() }
        try await group.waitForAll()
    }
}
