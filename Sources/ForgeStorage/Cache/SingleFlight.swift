import Synchronization

/// The loads that are under way, at most one per key, and their waiters.
///
/// A flight is *current* until it ends or its key is invalidated. One that is not current any more still answers its
/// waiters, but changes nothing in the cache.
final class SingleFlight<Outcome: Sendable>: Sendable {
    private typealias Waiter = CheckedContinuation<Outcome?, any Error>

    private struct Flight {
        var waiters: [Int: Waiter] = [:]
        var task: Task<Void, Never>?
        /// Whether it goes on without waiters.
        var isHeld = true
    }

    private struct State {
        var current: [CacheKey: Int] = [:]
        var flights: [Int: Flight] = [:]
        /// The flight of each waiter, so that a cancellation takes the same time for any number of waiters.
        var flightOfWaiter: [Int: Int] = [:]
        var lastNumber = 0

        mutating func nextNumber() -> Int {
            lastNumber += 1
            return lastNumber
        }

        /// Releases the waiters of a flight that get a result.
        mutating func removeWaiters(_ waiters: [Int: Waiter]?) -> [Waiter] {
            guard let waiters else { return [] }
            for waiter in waiters.keys { flightOfWaiter[waiter] = nil }
            return Array(waiters.values)
        }
    }

    private let state = Mutex(State())

    /// Begins a flight, which the caller must finish or join; nil if there is a current one.
    func begin(_ key: CacheKey) -> Int? {
        state.withLock { state in
            guard state.current[key] == nil else { return nil }
            let number = state.nextNumber()
            state.current[key] = number
            state.flights[number] = Flight()
            return number
        }
    }

    /// Ends a flight: all waiters get the result.
    func finish(_ number: Int, _ key: CacheKey, _ result: Result<Outcome, any Error>) {
        let waiters = state.withLock { state in
            if state.current[key] == number { state.current[key] = nil }
            return state.removeWaiters(state.flights.removeValue(forKey: number)?.waiters)
        }
        for waiter in waiters { waiter.resume(with: result.map { $0 }) }
    }

    /// Gives the present waiters a result; the flight goes on without them.
    func answer(_ number: Int, _ result: Outcome) {
        let waiters = state.withLock { state in
            state.flights[number]?.isHeld = true
            defer { state.flights[number]?.waiters = [:] }
            return state.removeWaiters(state.flights[number]?.waiters)
        }
        for waiter in waiters { waiter.resume(returning: result) }
    }

    func isCurrent(_ number: Int, _ key: CacheKey) -> Bool {
        state.withLock { $0.current[key] == number }
    }

    /// Calls `body` if the flight is current, and prevents that it is invalidated meanwhile.
    func ifCurrent(_ number: Int, _ key: CacheKey, _ body: () -> Void) {
        state.withLock { if $0.current[key] == number { body() } }
    }

    func invalidate(_ key: CacheKey) {
        state.withLock { _ = $0.current.removeValue(forKey: key) }
    }

    func invalidateAll() {
        state.withLock { $0.current.removeAll() }
    }

    /// Starts the task of a flight that nothing waits for.
    func start(_ number: Int, _ start: () -> Task<Void, Never>) {
        set(start(), of: number)
    }

    /// Starts the task of a flight and waits for its result.
    func join(_ number: Int, _ key: CacheKey, _ start: @Sendable () -> Task<Void, Never>) async throws -> Outcome? {
        try await wait { _ in
            number
        } didWait: { isWaiting in
            let isNeeded = self.state.withLock { state in
                state.flights[number]?.isHeld = false
                guard !isWaiting, state.flights[number]?.waiters.isEmpty != false else { return true }
                // It has no task yet.
                _ = Self.abandon(number, key, &state)
                return false
            }
            if isNeeded { self.set(start(), of: number) }
        } abandoning: { number, state in
            Self.abandon(number, key, &state)
        }
    }

    /// Waits for the result of a key's current flight; nil if there is none any more.
    func join(_ key: CacheKey) async throws -> Outcome? {
        try await wait {
            $0.current[key]
        } didWait: { _ in
        } abandoning: { number, state in
            Self.abandon(number, key, &state)
        }
    }

    /// - Parameters:
    ///   - flight: The number of the flight to wait for.
    ///   - didWait: Called after the waiter was added, with false if it was not because its task is cancelled.
    ///   - abandoning: Ends a flight whose last waiter was cancelled, and returns its task.
    /// - Returns: The result; nil if there is no such flight.
    /// - Throws: The error of the flight, or `CancellationError`.
    private func wait(
        for flight: (State) -> Int?, didWait: (Bool) -> Void,
        abandoning: @escaping @Sendable (Int, inout State) -> Task<Void, Never>?
    ) async throws -> Outcome? {
        let waiter = state.withLock { $0.nextNumber() }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: Waiter) in
                let start = state.withLock { state -> WaitStart in
                    // The handler below runs after the cancellation is visible, and waits for this lock.
                    if Task.isCancelled { return .cancelled }
                    guard let number = flight(state), state.flights[number] != nil else { return .ended }
                    state.flights[number]?.waiters[waiter] = continuation
                    state.flightOfWaiter[waiter] = number
                    return .waiting
                }
                didWait(start == .waiting)
                switch start {
                case .waiting: break
                case .cancelled: continuation.resume(throwing: CancellationError())
                case .ended: continuation.resume(returning: nil)
                }
            }
        } onCancel: {
            let (continuation, task) = state.withLock { state -> (Waiter?, Task<Void, Never>?) in
                guard let number = state.flightOfWaiter.removeValue(forKey: waiter),
                    let index = state.flights.index(forKey: number),
                    let continuation = state.flights.values[index].waiters.removeValue(forKey: waiter)
                else { return (nil, nil) }
                guard state.flights.values[index].waiters.isEmpty, !state.flights.values[index].isHeld else {
                    return (continuation, nil)
                }
                return (continuation, abandoning(number, &state))
            }
            // Without the lock: this calls the cancellation handlers of the load.
            task?.cancel()
            continuation?.resume(throwing: CancellationError())
        }
    }

    private func set(_ task: Task<Void, Never>, of number: Int) {
        let isNeeded = state.withLock { state in
            state.flights[number]?.task = task
            return state.flights[number] != nil
        }
        // It has ended, or its last waiter was cancelled before.
        if !isNeeded { task.cancel() }
    }

    /// Ends a flight, and returns its task, for the caller to cancel without the lock.
    private static func abandon(_ number: Int, _ key: CacheKey, _ state: inout State) -> Task<Void, Never>? {
        if state.current[key] == number { state.current[key] = nil }
        return state.flights.removeValue(forKey: number)?.task
    }
}

private enum WaitStart {
    case waiting, cancelled, ended
}
