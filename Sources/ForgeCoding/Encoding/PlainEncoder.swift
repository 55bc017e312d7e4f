/// Encodes numbers and text as ``ValueCoder`` does in the binary format under version 1, in memory of its own.
///
/// For who encodes one value after another and has a lock anyway: no call allocates anything once there is enough memory.
package struct PlainEncoder: ~Copyable, @unchecked Sendable {
    // Invariant of the unchecked conformance: the sink has no other owner.

    private let sink = ByteSink(capacity: 64, maximumDepth: 0, userInfo: [:])

    package init() {}

    /// An integer; the bytes are good until the next call, as they are for the others.
    package mutating func encode(_ value: Int64) -> UnsafeRawBufferPointer {
        begin()
        sink.appendSigned(value)
        return bytes
    }

    /// An integer.
    package mutating func encode(_ value: UInt64) -> UnsafeRawBufferPointer {
        begin()
        sink.appendUnsigned(value)
        return bytes
    }

    /// A number.
    package mutating func encode(_ value: Double) -> UnsafeRawBufferPointer {
        begin()
        sink.append(value)
        return bytes
    }

    /// A number.
    package mutating func encode(_ value: Float) -> UnsafeRawBufferPointer {
        begin()
        sink.append(value)
        return bytes
    }

    /// A truth value.
    package mutating func encode(_ value: Bool) -> UnsafeRawBufferPointer {
        begin()
        sink.append(value)
        return bytes
    }

    /// Text.
    package mutating func encode(_ value: String) -> UnsafeRawBufferPointer {
        begin()
        sink.append(value)
        return bytes
    }

    @inline(__always)
    private func begin() {
        sink.clear()
        sink.appendEnvelope(.binary, 1)
    }

    @inline(__always)
    private var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: sink.base, count: sink.count) }
}
