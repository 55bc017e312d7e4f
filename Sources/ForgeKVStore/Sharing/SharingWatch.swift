import ForgeFileSystem
import Synchronization

/// Looks for what other processes publish in a shared store, while there are subscribers.
///
/// It looks when a process signals that it has published something. Where the system has no signals it polls, at first
/// after the interval of the options, then after twice the time, up to a second. After a look that has failed it tries
/// again in the same way, at first after 20 milliseconds.
final class SharingWatch: Sendable {
    /// The result of a look.
    enum Outcome {
        case nothing
        case changes
        /// There is something that could not be read.
        case failure
    }

    private let page: SharedPage
    private let interval: Duration
    private let state = Mutex(State())

    private struct State {
        weak var observation: Observation?
        var isStopped = false
    }

    init(_ page: SharedPage, pollingInterval: Duration) {
        self.page = page
        // A day is as good as never.
        interval = min(max(pollingInterval, .milliseconds(1)), .seconds(86_400))
    }

    /// The observation that calls `look` until the last subscriber has released it; nil once the store is closed.
    func start(_ look: @escaping @Sendable () -> Outcome) -> Observation? {
        state.withLock { state in
            if state.isStopped { return nil }
            if let observation = state.observation { return observation }
            let new = Observation(page, interval, look)
            state.observation = new
            return new
        }
    }

    /// Ends the observation, if there is one, for good.
    func stop() {
        // Released outside the lock.
        let observation = state.withLock { state in
            state.isStopped = true
            return state.observation
        }
        observation?.end()
    }

    /// An observation of the shared page that ends when it is released.
    final class Observation: Sendable {
        private let page: SharedPage
        private let current: Mutex<(any FileSignalObservation)?>

        fileprivate init(_ page: SharedPage, _ interval: Duration, _ look: @escaping @Sendable () -> Outcome) {
            self.page = page
            let pauses = Pauses(interval)
            current = Mutex(page.observe { isSignalled in pauses.next(after: look(), isSignalled) })
        }

        deinit { end() }

        fileprivate func end() {
            if let observation = current.withLock({ $0.take() }) { page.endObserving(observation) }
        }
    }

    /// The times until the next look without a signal.
    private final class Pauses: Sendable {
        private let interval: Duration
        private let last = Mutex(Duration.zero)

        private static let afterFailure = Duration.milliseconds(20)
        private static let longest = Duration.seconds(1)

        init(_ interval: Duration) { self.interval = interval }

        /// Nil if only a signal leads to another look.
        func next(after outcome: Outcome, _ isSignalled: Bool) -> Duration? {
            last.withLock { last in
                guard outcome != .changes, outcome == .failure || !isSignalled else {
                    last = .zero
                    return isSignalled ? nil : interval
                }
                let first = outcome == .failure ? min(interval, Self.afterFailure) : interval
                last = max(first, min(last * 2, Self.longest))
                return last
            }
        }
    }
}
