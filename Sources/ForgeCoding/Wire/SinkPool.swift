import Synchronization

/// One sink that waits to be used again. Who finds none makes one; who comes back too late lets his go.
enum SinkPool {
    /// The address of a sink that the pool owns; 0 for none.
    private static let waiting = Atomic<UInt>(0)

    /// A sink that has grown beyond this is not kept.
    private static let largestCapacity = 1 << 16

    /// An empty sink, for nobody else.
    @inline(__always)
    static func take(maximumDepth: Int) -> ByteSink {
        let bits = waiting.exchange(0, ordering: .acquiring)
        guard let address = UnsafeRawPointer(bitPattern: bits) else {
            return ByteSink(capacity: 256, maximumDepth: maximumDepth, userInfo: [:])
        }
        let sink = Unmanaged<ByteSink>.fromOpaque(address).takeRetainedValue()
        guard sink.maximumDepth == maximumDepth else {
            return ByteSink(capacity: 256, maximumDepth: maximumDepth, userInfo: [:])
        }
        return sink
    }

    /// Takes a sink back that was taken.
    @inline(__always)
    static func giveBack(_ sink: consuming ByteSink) {
        guard sink.capacity <= largestCapacity else { return }
        sink.clear()
        let own = Unmanaged.passRetained(sink)
        let (isKept, _) = waiting.compareExchange(
            expected: 0, desired: UInt(bitPattern: own.toOpaque()), ordering: .releasing)
        if !isKept { own.release() }
    }
}
