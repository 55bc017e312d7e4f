/// Encodes numbers and text as ``ValueCoder`` does in the binary format under version 1, in memory of its own.
///
/// For who encodes one value after another and has a lock anyway: no call allocates anything once there is enough memory.
package struct PlainEncoder: ~Copyable, @unchecked Sendable {
    // Invariant of the unchecked conformance: the sink has no other owner.

    private let owned: Unmanaged<ByteSink>

    package init() {
        owned = .passRetained(ByteSink(capacity: 64, maximumDepth: 0, userInfo: [:]))
    }

    deinit { owned.release() }

    /// Calls `body` with the sink, which it does not have to keep alive, and gives the bytes that are in it then.
    @inline(__always)
    private func encode(_ body: (ByteSink) -> Void) -> UnsafeRawBufferPointer {
        owned._withUnsafeGuaranteedRef { sink in
            sink.clear()
            sink.appendEnvelope(.binary, 1)
            body(sink)
            return UnsafeRawBufferPointer(start: sink.base, count: sink.count)
        }
    }

    /// An integer; the bytes are good until the next call, as they are for the others.
    package mutating func encode(_ value: Int64) -> UnsafeRawBufferPointer {
        encode { $0.appendSigned(value) }
    }

    /// An integer.
    package mutating func encode(_ value: UInt64) -> UnsafeRawBufferPointer {
        encode { $0.appendUnsigned(value) }
    }

    /// A number.
    package mutating func encode(_ value: Double) -> UnsafeRawBufferPointer {
        encode { $0.append(value) }
    }

    /// A number.
    package mutating func encode(_ value: Float) -> UnsafeRawBufferPointer {
        encode { $0.append(value) }
    }

    /// A truth value.
    package mutating func encode(_ value: Bool) -> UnsafeRawBufferPointer {
        encode { $0.append(value) }
    }

    /// Text.
    package mutating func encode(_ value: String) -> UnsafeRawBufferPointer {
        encode { $0.append(value) }
    }
}
