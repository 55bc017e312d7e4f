import Dispatch
import Foundation
import Synchronization

/// Runs `body` in so many threads of their own, which are let go together once all of them stand ready.
///
/// - Parameters:
///   - count: How many threads.
///   - body: What each does; it is given the thread's number, from 0 on.
/// - Returns: Nanoseconds from the moment that the first began to the moment that the last was done.
/// - Throws: The first error that `body` threw, when all are done.
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

/// When the first thread began and the last was done.
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
