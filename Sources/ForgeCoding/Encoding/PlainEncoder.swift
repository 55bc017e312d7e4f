/// Encodes numbers and strings as ``ValueCoder`` does under schema version 1, into a buffer of its own.
///
/// For callers that encode one value at a time under a lock: a call does not allocate once the buffer has grown.
package struct PlainEncoder: ~Copyable, @unchecked Sendable {
    // `@unchecked Sendable`: the sink has no other owner.

    private let owned: Unmanaged<ByteSink>

    package init() {
        owned = .passRetained(ByteSink(capacity: 64, maximumDepth: 0, userInfo: [:]))
    }

    deinit { owned.release() }

    /// Calls `body` with the sink, without retaining it, and returns the bytes that it holds.
    @inline(__always)
    private func encode(_ body: (ByteSink) -> Void) -> UnsafeRawBufferPointer {
        owned._withUnsafeGuaranteedRef { sink in
            sink.clear()
            sink.appendEnvelopeHeader(1)
            body(sink)
            return UnsafeRawBufferPointer(start: sink.base, count: sink.count)
        }
    }

    /// Encodes an integer; the result of every `encode` is valid until the next call.
    package mutating func encode(_ value: Int64) -> UnsafeRawBufferPointer {
        encode { $0.appendSigned(value) }
    }

    package mutating func encode(_ value: UInt64) -> UnsafeRawBufferPointer {
        encode { $0.appendUnsigned(value) }
    }

    package mutating func encode(_ value: Double) -> UnsafeRawBufferPointer {
        encode { $0.append(value) }
    }

    package mutating func encode(_ value: Float) -> UnsafeRawBufferPointer {
        encode { $0.append(value) }
    }

    package mutating func encode(_ value: Bool) -> UnsafeRawBufferPointer {
        encode { $0.append(value) }
    }

    package mutating func encode(_ value: String) -> UnsafeRawBufferPointer {
        encode { $0.append(value) }
    }
}
