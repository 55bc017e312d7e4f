import Dispatch
import Synchronization

/// The observers of changes by other processes. While there is one, a timer checks the store.
final class SharingWatch: Sendable {
    typealias Handler = @Sendable ([String]?) -> Void

    private struct State {
        var handlers: [UInt64: Handler] = [:]
        var lastID: UInt64 = 0
        var timer: Timer?
    }

    private let state = Mutex(State())
    private let count = Atomic(0)
    private let interval: Duration
    private let queue = DispatchQueue(label: "ForgeKVStore.sharing")

    init(interval: Duration) {
        self.interval = interval
    }

    /// Whether there is an observer.
    var isOn: Bool { count.load(ordering: .acquiring) > 0 }

    /// Adds a handler; `look` is called from time to time while there is one.
    func add(_ handler: @escaping Handler, look: @escaping @Sendable () -> Void) -> KVObservation {
        let id = state.withLock { state in
            state.lastID += 1
            state.handlers[state.lastID] = handler
            count.store(state.handlers.count, ordering: .releasing)
            if state.timer == nil { state.timer = Timer(on: queue, every: interval, look) }
            return state.lastID
        }
        return KVObservation { [self] in remove(id) }
    }

    private func remove(_ id: UInt64) {
        // Returned, so that it is destroyed outside the lock.
        _ = state.withLock { state -> (Handler?, Timer?) in
            let handler = state.handlers.removeValue(forKey: id)
            count.store(state.handlers.count, ordering: .releasing)
            guard state.handlers.isEmpty else { return (handler, nil) }
            defer { state.timer = nil }
            return (handler, state.timer)
        }
    }

    /// Calls all observers with the names that have changed, or with nil if any may have; on a queue, in the order of
    /// the calls.
    func notify(_ names: [String]?) {
        queue.async { [self] in
            for handler in state.withLock({ Array($0.handlers.values) }) { handler(names) }
        }
    }

    /// A timer that ends when it goes.
    private final class Timer: @unchecked Sendable {
        // Invariant of the unchecked conformance: the source is only ever cancelled, which any thread may do.
        private let source: any DispatchSourceTimer

        init(on queue: DispatchQueue, every interval: Duration, _ body: @escaping @Sendable () -> Void) {
            source = DispatchSource.makeTimerSource(queue: queue)
            // A day is as good as never.
            let nanoseconds = Int(min(max(interval, .milliseconds(1)), .seconds(86_400)) / .nanoseconds(1))
            source.setEventHandler(handler: body)
            source.schedule(
                deadline: .now() + .nanoseconds(nanoseconds), repeating: .nanoseconds(nanoseconds),
                leeway: .nanoseconds(nanoseconds / 4))
            source.resume()
        }

        deinit { source.cancel() }
    }
}
