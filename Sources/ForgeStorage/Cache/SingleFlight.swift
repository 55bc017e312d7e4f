import Synchronization

/// The loads in progress, called flights, and their waiters.
///
/// A flight is *current* until it ends or its key is invalidated; a key has at most one current flight. A flight that
/// is no longer current still answers its waiters, but changes nothing in the cache.
final class SingleFlight<Outcome: Sendable>: Sendable {
    private typealias Waiter = CheckedContinuation<Outcome?, any Error>

    private struct Flight {
        var waiters: [Int: Waiter] = [:]
        var task: Task<Void, Never>?
        /// Whether the flight continues without waiters.
        var isHeld = true
    }

    private struct State {
        /// The number of the current flight of each key.
        var current: [CacheKey: Int] = [:]
        var flights: [Int: Flight] = [:]
        /// The flight of each waiter, so that a cancellation takes constant time.
        var flightOfWaiter: [Int: Int] = [:]
        /// The last number assigned; flights and waiters share the numbers.
        var lastNumber = 0

        mutating func nextNumber() -> Int {
            lastNumber += 1
            return lastNumber
        }

        /// Unregisters waiters, and returns them, for the caller to resume without the lock.
        mutating func removeWaiters(_ waiters: [Int: Waiter]?) -> [Waiter] {
            guard let waiters else { return [] }
            for waiter in waiters.keys { flightOfWaiter[waiter] = nil }
            return Array(waiters.values)
        }
    }

    private let state = Mutex(State())

    /// Begins a flight, which the caller must start, join or finish; returns its number, or nil if the key has a
    /// current flight.
    func begin(_ key: CacheKey) -> Int? {
        state.withLock { state in
            guard state.current[key] == nil else { return nil }
            let number = state.nextNumber()
            state.current[key] = number
            state.flights[number] = Flight()
            return number
        }
    }

    /// Ends a flight; all its waiters receive the result.
    func finish(_ number: Int, _ key: CacheKey, _ result: Result<Outcome, any Error>) {
        let waiters = state.withLock { state in
            if state.current[key] == number { state.current[key] = nil }
            return state.removeWaiters(state.flights.removeValue(forKey: number)?.waiters)
        }
        for waiter in waiters { waiter.resume(with: result.map { $0 }) }
    }

    /// Resumes the present waiters with a result; the flight continues without them.
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

    /// Calls `body` if the flight is current; the flight cannot be invalidated before `body` returns.
    ///
    /// `body` runs under the lock and must not call this object, nor release a value of the app, whose deinitializer may.
    func ifCurrent(_ number: Int, _ key: CacheKey, _ body: () -> Void) {
        state.withLock { if $0.current[key] == number { body() } }
    }

    /// Makes the current flight of a key no longer current.
    func invalidate(_ key: CacheKey) {
        state.withLock { _ = $0.current.removeValue(forKey: key) }
    }

    /// Makes all flights no longer current.
    func invalidateAll() {
        state.withLock { $0.current.removeAll() }
    }

    /// Starts the task of a flight without waiting for it.
    func start(_ number: Int, _ start: () -> Task<Void, Never>) {
        set(start(), of: number)
    }

    /// Starts the task of a flight and waits for its result; nil if the flight has ended.
    ///
    /// - Throws: The error of the flight, or `CancellationError`; the cancellation of the last waiter ends the flight.
    func join(_ number: Int, _ key: CacheKey, _ start: @Sendable () -> Task<Void, Never>) async throws -> Outcome? {
        try await wait { _ in
            number
        } didWait: { isWaiting in
            let isNeeded = self.state.withLock { state in
                state.flights[number]?.isHeld = false
                guard !isWaiting, state.flights[number]?.waiters.isEmpty != false else { return true }
                // The flight has no task yet.
                _ = Self.abandon(number, key, &state)
                return false
            }
            if isNeeded { self.set(start(), of: number) }
        } abandoning: { number, state in
            Self.abandon(number, key, &state)
        }
    }

    /// Waits for the result of a key's current flight; nil if the key has none.
    ///
    /// - Throws: The error of the flight, or `CancellationError`; the cancellation of the last waiter ends the flight.
    func join(_ key: CacheKey) async throws -> Outcome? {
        try await wait {
            $0.current[key]
        } didWait: { _ in
        } abandoning: { number, state in
            Self.abandon(number, key, &state)
        }
    }

    /// Adds a waiter to a flight, and waits for the result.
    ///
    /// - Parameters:
    ///   - flight: Returns the number of the flight to wait for.
    ///   - didWait: Called with true after the waiter was added, and with false if it was not: its task is cancelled,
    ///     or the flight has ended.
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

    /// Stores the task of a flight; cancels it if the flight has ended.
    private func set(_ task: Task<Void, Never>, of number: Int) {
        let isNeeded = state.withLock { state in
            state.flights[number]?.task = task
            return state.flights[number] != nil
        }
        // The flight ended, or its last waiter was cancelled, before it had a task.
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
