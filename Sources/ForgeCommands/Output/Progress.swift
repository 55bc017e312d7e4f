import Synchronization

/// A progress line on standard error, shown once the work has taken a second.
final class Progress: Sendable {
    private struct State {
        var done = 0
        var lastShown: ContinuousClock.Instant
        var isShown = false
    }

    private let what: String
    private let state: Mutex<State>
    private let start = ContinuousClock.now
    private let write: @Sendable (String) -> Void

    init(_ what: String, write: @escaping @Sendable (String) -> Void = { StandardError.write($0) }) {
        self.what = what
        self.write = write
        state = Mutex(State(lastShown: .now))
    }

    /// Counts one more step.
    func step(now: ContinuousClock.Instant = .now) {
        state.withLock { state in
            state.done += 1
            guard now - start >= .seconds(1), now - state.lastShown >= .milliseconds(100) else { return }
            state.lastShown = now
            state.isShown = true
            write("\r\(what): \(state.done)")
        }
    }

    /// Ends the line if one was shown.
    func finish() {
        state.withLock { state in
            if state.isShown { write("\r\(what): \(state.done), done\n") }
            state.isShown = false
        }
    }
}
