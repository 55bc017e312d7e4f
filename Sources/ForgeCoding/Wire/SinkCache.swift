import Synchronization

/// A one-element lock-free cache: `take` allocates when it is empty, `giveBack` frees when it is full.
enum SinkCache {
    /// The address of the cached sink, which the cache retains; 0 if empty.
    private static let cached = Atomic<UInt>(0)

    /// Larger sinks are not cached.
    private static let largestCapacity = 1 << 16

    /// Returns an empty sink that the caller owns.
    @inline(__always)
    static func take(maximumDepth: Int) -> ByteSink {
        let bits = cached.exchange(0, ordering: .acquiring)
        guard let address = UnsafeRawPointer(bitPattern: bits) else {
            return ByteSink(capacity: 256, maximumDepth: maximumDepth, userInfo: [:])
        }
        let sink = Unmanaged<ByteSink>.fromOpaque(address).takeRetainedValue()
        guard sink.maximumDepth == maximumDepth else {
            return ByteSink(capacity: 256, maximumDepth: maximumDepth, userInfo: [:])
        }
        return sink
    }

    /// Returns a sink to the cache.
    @inline(__always)
    static func giveBack(_ sink: consuming ByteSink) {
        guard sink.capacity <= largestCapacity else { return }
        sink.clear()
        let own = Unmanaged.passRetained(sink)
        let (isCached, _) = cached.compareExchange(
            expected: 0, desired: UInt(bitPattern: own.toOpaque()), ordering: .releasing)
        if !isCached { own.release() }
    }
}
