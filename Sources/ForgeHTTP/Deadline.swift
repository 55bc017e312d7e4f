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
        let id = DeadlineScheduler.shared.add(.now + limit) { task.cancel() }
        let result = await withTaskCancellationHandler {
            await task.result
        } onCancel: {
            task.cancel()
        }
        let hasExpired = !DeadlineScheduler.shared.remove(id)
        do {
            return try result.get()
        } catch {
            throw hasExpired && !Task.isCancelled ? HTTPClientError.deadlineExceeded : error
        }
    }
}

/// Cancels tasks at their deadlines.
///
/// One task sleeps until the earliest of them: a timer for each request would cost two context switches.
private final class DeadlineScheduler: Sendable {
    static let shared = DeadlineScheduler()

    private struct State {
        var lastID: UInt64 = 0
        var deadlines: [UInt64: (end: ContinuousClock.Instant, cancel: @Sendable () -> Void)] = [:]

        /// The end of the sleep; nil if no task sleeps.
        var wake: ContinuousClock.Instant?
        var sleeper: Task<Void, Never>?

        /// Removes the expired deadlines; returns their closures.
        mutating func takeExpired() -> [@Sendable () -> Void] {
            let now = ContinuousClock.now
            let expired = deadlines.filter { $0.value.end <= now }
            for id in expired.keys { deadlines[id] = nil }
            return expired.values.map(\.cancel)
        }
    }

    /// The shortest sleep: each one ends with a search of all deadlines.
    private static let resolution = Duration.milliseconds(10)

    private let state = Mutex(State())

    func add(_ end: ContinuousClock.Instant, _ cancel: @escaping @Sendable () -> Void) -> UInt64 {
        state.withLock { state in
            state.lastID += 1
            state.deadlines[state.lastID] = (end, cancel)
            if state.wake.map({ end < $0 }) ?? true {
                state.sleeper?.cancel()
                state.wake = end
                state.sleeper = Task.detached(priority: .high) { [self] in await sleep(until: end) }
            }
            return state.lastID
        }
    }

    /// Removes a deadline; returns false if it has expired.
    func remove(_ id: UInt64) -> Bool { state.withLock { $0.deadlines.removeValue(forKey: id) != nil } }

    private func sleep(until end: ContinuousClock.Instant) async {
        var end = end
        while true {
            // An earlier deadline has replaced this task.
            do { try await Task.sleep(until: end, clock: .continuous) } catch { return }
            let (expired, next) = state.withLock { state in
                let expired = state.takeExpired()
                guard state.wake == end else { return (expired, ContinuousClock.Instant?.none) }
                state.wake = state.deadlines.values.map(\.end).min().map { max($0, .now + Self.resolution) }
                return (expired, state.wake)
            }
            for cancel in expired { cancel() }
            guard let next else { return }
            end = next
        }
    }
}
#endif
