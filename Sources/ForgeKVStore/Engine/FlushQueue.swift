import Dispatch
import Foundation
import Synchronization

/// Lets one thread at a time flush, for all who wait.
///
/// Who waits is woken by the end of the flush that has covered what he wrote, all at once; only one of those whom it has not
/// covered flushes next. Behind a lock, threads would pass one by one, and the device would stand idle meanwhile.
final class FlushQueue: Sendable {
    private struct State: Sendable {
        var isTaken = false
        var waiting: [(wanted: UInt64, wake: DispatchSemaphore)] = []

        /// How many flushed, or waited, when the last flush ended: most of them will soon write again.
        var busyCount = 0
    }

    /// How many times who has his turn lets others go first: about as long as it takes them to write.
    private static let patience = 32

    private let state = Mutex(State())

    /// Waits until it is this thread's turn, or what it wants is done.
    ///
    /// - Parameters:
    ///   - wanted: Until which number everything is to be flushed.
    ///   - isDone: Whether it is; called without a lock of the queue.
    /// - Returns: Whether it is this thread's turn; it must call ``end(flushed:)`` then.
    func begin(_ wanted: UInt64, isDone: () -> Bool) -> Bool {
        while true {
            if isDone() { return false }
            let wake = state.withLock { state -> DispatchSemaphore? in
                guard state.isTaken else {
                    state.isTaken = true
                    return nil
                }
                let wake = DispatchSemaphore(value: 0)
                state.waiting.append((wanted, wake))
                return wake
            }
            guard let wake else {
                // It may have been done between the two looks.
                guard isDone() else {
                    waitForOthers()
                    return true
                }
                end(flushed: wanted)
                return false
            }
            wake.wait()
        }
    }

    /// Lets those write whom the last flush has woken: one flush is as good for all of them.
    private func waitForOthers() {
        for _ in 0..<Self.patience where state.withLock({ $0.waiting.count + 1 < $0.busyCount }) { sched_yield() }
    }

    /// Ends a turn; all whose writes are among those that were flushed are woken, and one of the others.
    func end(flushed: UInt64) {
        let woken = state.withLock { state in
            state.isTaken = false
            // And who has flushed.
            state.busyCount = state.waiting.count + 1
            var woken = state.waiting.filter { $0.wanted <= flushed }
            state.waiting.removeAll { $0.wanted <= flushed }
            if !state.waiting.isEmpty { woken.append(state.waiting.removeFirst()) }
            return woken
        }
        for waiter in woken { waiter.wake.signal() }
    }
}
