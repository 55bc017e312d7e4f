import Dispatch
import Foundation
import Synchronization

/// Runs `body` in several threads that start together once all are ready.
///
/// - Parameters:
///   - count: The number of threads.
///   - body: The work of a thread; its argument is the thread's number, counted from 0.
/// - Returns: Nanoseconds from the start of the first thread to the end of the last.
/// - Throws: The first error of `body`, after all threads have ended.
public func nanoseconds(inThreads count: Int, _ body: @escaping @Sendable (Int) throws -> Void) throws -> Double {
    let outcome = Outcome()
    let ready = DispatchSemaphore(value: 0)
    let gate = DispatchSemaphore(value: 0)
    let done = DispatchSemaphore(value: 0)
    for number in 0..<count {
        Thread.detachNewThread {
            ready.signal()
            gate.wait()
            outcome.note { try body(number) }
            done.signal()
        }
    }
    for _ in 0..<count { ready.wait() }
    for _ in 0..<count { gate.signal() }
    for _ in 0..<count { done.wait() }
    return try outcome.nanoseconds()
}

/// The start of the first thread and the end of the last.
private final class Outcome: Sendable {
    private struct State {
        var start: ContinuousClock.Instant?
        var end: ContinuousClock.Instant?
        var error: (any Error)?
    }

    private let state = Mutex(State())

    func note(_ body: () throws -> Void) {
        let clock = ContinuousClock()
        let start = clock.now
        var failure: (any Error)?
        do {
            try body()
        } catch {
            failure = error
        }
        let end = clock.now
        state.withLock { state in
            state.start = min(state.start ?? start, start)
            state.end = max(state.end ?? end, end)
            state.error = state.error ?? failure
        }
    }

    func nanoseconds() throws -> Double {
        let state = state.withLock { $0 }
        if let error = state.error { throw error }
        guard let start = state.start, let end = state.end else { return 0 }
        return (end - start) / .nanoseconds(1)
    }
}
