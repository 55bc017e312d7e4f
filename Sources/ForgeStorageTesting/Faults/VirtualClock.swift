import Synchronization

/// A clock that moves only when it is told to: the time in which planned latency passes, so that no test waits.
public final class VirtualClock: Sendable {
    private let time = Mutex(Duration.zero)

    /// A clock that shows zero.
    public init() {}

    /// How long ago, by this clock, it was made.
    public var now: Duration { time.withLock { $0 } }

    /// Moves the clock on; a negative duration leaves it as it is.
    public func advance(by duration: Duration) {
        time.withLock { $0 += max(duration, .zero) }
    }
}
