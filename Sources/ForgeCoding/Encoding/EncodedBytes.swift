/// The bytes of an encoded value, in a buffer that returns to the cache.
package struct EncodedBytes: ~Copyable {
    let sink: ByteSink

    init(_ sink: ByteSink) {
        self.sink = sink
    }

    deinit { SinkCache.giveBack(sink) }

    /// The number of bytes.
    package var count: Int { sink.count }

    /// The bytes, valid for the lifetime of this value.
    package var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: sink.base, count: sink.count) }
}
