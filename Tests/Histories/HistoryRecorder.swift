import ForgeKVStore
import Synchronization

/// The calls of concurrent clients, as they happen.
package final class HistoryRecorder: Sendable {
    /// The number of calls by outcome.
    package struct Counts: Hashable, Sendable {
        /// Answered, refused requirements included.
        package var answered = 0

        /// Failed with an error that says that nothing was changed. Not part of the history.
        package var failed = 0

        package var unknown = 0

        package init() {}

        package var all: Int { answered + failed + unknown }
    }

    private struct State {
        var operations: [HistoryOperation] = []
        var counts = Counts()
        var begun = 0
    }

    private let state = Mutex(State())
    private let values = Atomic(0)
    private let start = ContinuousClock.now

    package init() {}

    package var operations: [HistoryOperation] { state.withLock { $0.operations } }
    package var counts: Counts { state.withLock { $0.counts } }

    /// Counts a call before it begins, and returns the number of those before it.
    package func nextIndex() -> Int {
        state.withLock { state in
            state.begun += 1
            return state.begun - 1
        }
    }

    /// The number of calls that have begun.
    package var begun: Int { state.withLock { $0.begun } }

    /// A value that no other write of the history stores.
    func nextValue() -> Int { values.add(1, ordering: .relaxed).newValue }

    /// The time since the recorder was created, of a monotonic clock.
    func now() -> Int64 {
        let (seconds, attoseconds) = (ContinuousClock.now - start).components
        return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }

    func add(_ operation: HistoryOperation) {
        state.withLock { state in
            state.operations.append(operation)
            if operation.outcome == .unknown { state.counts.unknown += 1 } else { state.counts.answered += 1 }
        }
    }

    func addFailure() { state.withLock { $0.counts.failed += 1 } }
}
