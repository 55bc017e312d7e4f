import Synchronization

/// A clock that advances only explicitly: planned delays take no real time.
public final class VirtualClock: Sendable {
    private let time = Mutex(Duration.zero)

    /// Creates a clock at zero.
    public init() {}

    /// The time since its creation.
    public var now: Duration { time.withLock { $0 } }

    /// Advances the clock; a negative duration has no effect.
    public func advance(by duration: Duration) {
        time.withLock { $0 += max(duration, .zero) }
    }
}
