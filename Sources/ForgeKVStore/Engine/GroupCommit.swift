import Dispatch
import Foundation
import Synchronization

/// Group commit: one thread, the leader, flushes on behalf of every thread that waits.
///
/// A flush that ends wakes all threads whose writes it covered, and hands the lead to one of the others. Behind a plain
/// lock the threads would pass one by one, and each would pay for a flush of its own.
final class GroupCommit: Sendable {
    /// How many times a new leader yields, so that threads woken by the last flush can write and join this one.
    private static let yieldLimit = 32

    private let state = Mutex(GroupCommitState<Waiter>())

    /// A thread that waits for an outcome.
    private final class Waiter: Sendable {
        private let semaphore = DispatchSemaphore(value: 0)
        private let leads = Atomic(false)

        func wake(asLeader isLeader: Bool) {
            leads.store(isLeader, ordering: .relaxed)
            semaphore.signal()
        }

        /// Returns whether the thread has become the leader.
        func wait() -> Bool {
            semaphore.wait()
            return leads.load(ordering: .relaxed)
        }
    }

    /// How many threads wait.
    var waiterCount: Int { state.withLock { $0.waiterCount } }

    /// Waits until this thread leads, or what it wants is done.
    ///
    /// - Parameters:
    ///   - goal: The sequence number up to which everything is to be flushed.
    ///   - isDone: Whether that has happened; called without a lock of this object.
    /// - Returns: Whether this thread leads; it must call ``end(flushed:)`` then.
    func begin(_ goal: UInt64, isDone: () -> Bool) -> Bool {
        while !isDone() {
            let waiter = Waiter()
            guard state.withLock({ $0.begin(goal, waiter) }) || waiter.wait() else { continue }
            // The goal may have been reached before the lead was.
            guard !isDone() else {
                end(flushed: goal)
                return false
            }
            yieldToWriters()
            return true
        }
        return false
    }

    private func yieldToWriters() {
        for _ in 0..<Self.yieldLimit where state.withLock({ $0.expectsMore }) { sched_yield() }
    }

    /// Ends the lead, wakes every waiter whose goal was reached, and hands the lead to one of the others.
    func end(flushed: UInt64) {
        let outcome = state.withLock { $0.end(flushed: flushed) }
        for waiter in outcome.served { waiter.wake(asLeader: false) }
        outcome.leader?.wake(asLeader: true)
    }
}

/// The states of a ``GroupCommit``, without threads.
///
/// Invariant: while a thread waits, there is a leader. The lead passes from one thread to the next without a gap, so no
/// waiter is forgotten when another one has nothing left to do.
struct GroupCommitState<Waiter> {
    private var isLed = false
    private var waiting: [(goal: UInt64, waiter: Waiter)] = []

    /// How many threads took part in the last flush; most of them will write and flush again.
    private var lastCount = 0

    var waiterCount: Int { waiting.count }

    /// Whether more threads are expected to join the flush that is about to begin.
    var expectsMore: Bool { waiting.count + 1 < lastCount }

    /// Returns whether the caller leads; otherwise it waits.
    mutating func begin(_ goal: UInt64, _ waiter: Waiter) -> Bool {
        guard isLed else {
            isLed = true
            return true
        }
        waiting.append((goal, waiter))
        return false
    }

    /// Ends the lead. The waiters that are served check for themselves whether they are done; `leader` has the lead.
    mutating func end(flushed: UInt64) -> (served: [Waiter], leader: Waiter?) {
        lastCount = waiting.count + 1
        let served = waiting.filter { $0.goal <= flushed }.map(\.waiter)
        waiting.removeAll { $0.goal <= flushed }
        isLed = !waiting.isEmpty
        return (served, waiting.isEmpty ? nil : waiting.removeFirst().waiter)
    }
}
