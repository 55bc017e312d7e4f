#if Etcd || S3
import AsyncHTTPClient
import Synchronization

/// The time limit of a request, its answer included; the client's own ends with the head of the answer.
package enum Deadline {
    /// Runs `body`, and cancels it when the time is over.
    ///
    /// - Throws: `HTTPClientError.deadlineExceeded`, and the errors of `body`.
    package static func limiting<Success: Sendable>(
        _ limit: Duration, _ body: @escaping @Sendable () async throws -> Success
    ) async throws -> Success {
        let task = Task { try await body() }
        let id = DeadlineWatch.shared.add(.now + limit) { task.cancel() }
        let result = await withTaskCancellationHandler {
            await task.result
        } onCancel: {
            task.cancel()
        }
        let isOver = !DeadlineWatch.shared.remove(id)
        do {
            return try result.get()
        } catch {
            throw isOver && !Task.isCancelled ? HTTPClientError.deadlineExceeded : error
        }
    }
}

/// Cancels tasks at their deadlines.
///
/// One task sleeps until the earliest of them. A timer for each request would cost it two switches of threads.
private final class DeadlineWatch: Sendable {
    static let shared = DeadlineWatch()

    private struct State {
        var lastID: UInt64 = 0
        var deadlines: [UInt64: (end: ContinuousClock.Instant, cancel: @Sendable () -> Void)] = [:]

        /// The end of the sleep; nil if no task sleeps.
        var wake: ContinuousClock.Instant?
        var sleeper: Task<Void, Never>?

        /// Takes what ends the tasks whose deadline has passed.
        mutating func takeOverdue() -> [@Sendable () -> Void] {
            let now = ContinuousClock.now
            let overdue = deadlines.filter { $0.value.end <= now }
            for id in overdue.keys { deadlines[id] = nil }
            return overdue.values.map(\.cancel)
        }
    }

    private let state = Mutex(State())

    func add(_ end: ContinuousClock.Instant, _ cancel: @escaping @Sendable () -> Void) -> UInt64 {
        state.withLock { state in
            state.lastID += 1
            state.deadlines[state.lastID] = (end, cancel)
            if state.wake.map({ end < $0 }) ?? true {
                state.sleeper?.cancel()
                state.wake = end
                state.sleeper = Task.detached { [self] in await sleep(until: end) }
            }
            return state.lastID
        }
    }

    /// Returns whether the deadline had not passed.
    func remove(_ id: UInt64) -> Bool { state.withLock { $0.deadlines.removeValue(forKey: id) != nil } }

    private func sleep(until end: ContinuousClock.Instant) async {
        var end = end
        while true {
            // An earlier deadline has replaced this task.
            do { try await Task.sleep(until: end, clock: .continuous) } catch { return }
            let (overdue, next) = state.withLock { state in
                let overdue = state.takeOverdue()
                guard state.wake == end else { return (overdue, ContinuousClock.Instant?.none) }
                state.wake = state.deadlines.values.map(\.end).min()
                return (overdue, state.wake)
            }
            for cancel in overdue { cancel() }
            guard let next else { return }
            end = next
        }
    }
}
#endif
