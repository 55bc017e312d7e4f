import Dispatch
import Synchronization

/// Checks a shared store for changes by other processes from time to time, while there are subscribers.
final class SharingWatch: Sendable {
    private let timer = Mutex(WeakTimer())
    private let interval: Duration

    private struct WeakTimer {
        weak var timer: Timer?
    }

    init(interval: Duration) {
        self.interval = interval
    }

    /// The timer that calls `look` until the last subscriber has released it.
    func start(_ look: @escaping @Sendable () -> Void) -> Timer {
        timer.withLock { current in
            if let timer = current.timer { return timer }
            let new = Timer(every: interval, look)
            current.timer = new
            return new
        }
    }

    /// A timer that ends when it is released.
    final class Timer: @unchecked Sendable {
        // Invariant of the unchecked conformance: the source is only ever cancelled, which any thread may do.
        private let source: any DispatchSourceTimer

        init(every interval: Duration, _ body: @escaping @Sendable () -> Void) {
            source = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "ForgeKVStore.sharing"))
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
