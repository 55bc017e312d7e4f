/// What a value was encoded as, in memory that goes back to a pool.
package struct EncodedBytes: ~Copyable {
    let sink: ByteSink

    init(_ sink: ByteSink) {
        self.sink = sink
    }

    deinit { SinkPool.giveBack(sink) }

    /// How many they are.
    package var count: Int { sink.count }

    /// The bytes, good for as long as this is.
    package var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: sink.base, count: sink.count) }
}
