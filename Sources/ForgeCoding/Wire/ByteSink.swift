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

/// A growable output buffer.
///
/// Raw memory instead of an array: an append is a comparison and a store. Not thread-safe; one encoding owns it.
final class ByteSink {
    private(set) var base: UnsafeMutablePointer<UInt8>
    private(set) var count = 0
    private(set) var capacity: Int

    /// The maximum nesting depth of arrays, maps and tags.
    let maximumDepth: Int
    let userInfo: [CodingUserInfoKey: any Sendable]

    /// The first failure of a call that cannot throw; thrown at the end of the encoding.
    var failure: (any Error)?

    init(capacity: Int, maximumDepth: Int, userInfo: [CodingUserInfoKey: any Sendable]) {
        self.capacity = capacity
        self.maximumDepth = maximumDepth
        self.userInfo = userInfo
        base = .allocate(capacity: capacity)
    }

    deinit { base.deallocate() }

    var bytes: [UInt8] { bytes(0..<count) }

    func bytes(_ range: Range<Int>) -> [UInt8] {
        Array(UnsafeBufferPointer(start: base + range.lowerBound, count: range.count))
    }

    @inline(__always)
    func reserve(_ extra: Int) {
        if capacity &- count < extra { grow(by: extra) }
    }

    @inline(never)
    private func grow(by extra: Int) {
        capacity = max(capacity * 2, count + extra)
        let larger = UnsafeMutablePointer<UInt8>.allocate(capacity: capacity)
        larger.update(from: base, count: count)
        base.deallocate()
        base = larger
    }

    @inline(__always)
    func append(_ byte: UInt8) {
        reserve(1)
        base[count] = byte
        count &+= 1
    }

    /// Appends a first byte and `value` in big-endian order.
    @inline(__always)
    func append<Value: FixedWidthInteger>(_ first: UInt8, _ value: Value) {
        reserve(1 + MemoryLayout<Value>.size)
        base[count] = first
        UnsafeMutableRawPointer(base + count + 1).storeBytes(of: value.bigEndian, as: Value.self)
        count &+= 1 + MemoryLayout<Value>.size
    }

    @inline(__always)
    func append(_ source: UnsafeRawBufferPointer) {
        guard let start = source.baseAddress else { return }
        reserve(source.count)
        UnsafeMutableRawPointer(base + count).copyMemory(from: start, byteCount: source.count)
        count &+= source.count
    }

    func truncate(to length: Int) {
        count = length
    }

    /// Empties the sink and keeps its memory.
    func clear() {
        count = 0
        failure = nil
    }

    subscript(offset: Int) -> UInt8 {
        get { base[offset] }
        set { base[offset] = newValue }
    }

    /// Inserts `length` undefined bytes at `offset`.
    func openGap(at offset: Int, length: Int) {
        reserve(length)
        let start = UnsafeMutableRawPointer(base + offset)
        (start + length).copyMemory(from: start, byteCount: count - offset)
        count += length
    }

    func remove(_ range: Range<Int>) {
        let rest = UnsafeMutableRawPointer(base + range.upperBound)
        UnsafeMutableRawPointer(base + range.lowerBound).copyMemory(from: rest, byteCount: count - range.upperBound)
        count -= range.count
    }

    /// Appends `extra` undefined bytes, to be set with ``move(_:to:)`` and ``write(_:at:)``.
    func extend(by extra: Int) {
        reserve(extra)
        count += extra
    }

    /// Moves bytes towards the end; the ranges may overlap.
    func move(_ range: Range<Int>, to offset: Int) {
        UnsafeMutableRawPointer(base + offset).copyMemory(from: base + range.lowerBound, byteCount: range.count)
    }

    func write(_ other: ByteSink, at offset: Int) {
        UnsafeMutableRawPointer(base + offset).copyMemory(from: other.base, byteCount: other.count)
    }
}

extension ByteSink {
    /// Appends an item's head: major type, and argument in the shortest form.
    @inline(__always)
    func appendHead(_ major: UInt8, _ argument: UInt64) {
        if argument < 24 {
            append(major | UInt8(truncatingIfNeeded: argument))
        } else {
            appendLongHead(major, argument)
        }
    }

    @inline(never)
    private func appendLongHead(_ major: UInt8, _ argument: UInt64) {
        if argument <= UInt64(UInt8.max) {
            append(major | 24, UInt8(truncatingIfNeeded: argument))
        } else if argument <= UInt64(UInt16.max) {
            append(major | 25, UInt16(truncatingIfNeeded: argument))
        } else if argument <= UInt64(UInt32.max) {
            append(major | 26, UInt32(truncatingIfNeeded: argument))
        } else {
            append(major | 27, argument)
        }
    }

    /// Replaces the one-byte head at `offset` by one with this count.
    func setHead(_ major: UInt8, count: Int, at offset: Int) {
        if count < 24 {
            self[offset] = major | UInt8(truncatingIfNeeded: count)
            return
        }
        let argument = UInt64(count)
        let size = argument <= 0xFF ? 1 : argument <= 0xFFFF ? 2 : argument <= 0xFFFF_FFFF ? 4 : 8
        openGap(at: offset + 1, length: size)
        self[offset] = major | UInt8(24 + size.trailingZeroBitCount)
        for index in 0..<size {
            self[offset + size - index] = UInt8(truncatingIfNeeded: argument >> UInt64(8 * index))
        }
    }

    func appendNull() { append(Simple.null) }

    @inline(__always)
    func append(_ value: Bool) { append(value ? Simple.true : Simple.false) }

    @inline(__always)
    func appendSigned(_ value: Int64) {
        if value >= 0 {
            appendHead(MajorType.unsigned, UInt64(bitPattern: value))
        } else {
            appendHead(MajorType.negative, UInt64(bitPattern: ~value))
        }
    }

    @inline(__always)
    func appendUnsigned(_ value: UInt64) { appendHead(MajorType.unsigned, value) }

    @inline(__always)
    func append(_ value: Double) { append(Simple.double, value.bitPattern) }

    @inline(__always)
    func append(_ value: Float) { append(Simple.float, value.bitPattern) }

    @inline(__always)
    func append(_ value: String) {
        // Contiguous UTF-8 is appended without copying and retaining the string.
        if value.utf8.withContiguousStorageIfAvailable({ text in appendText(text) }) != nil { return }
        var value = value
        value.withUTF8 { text in appendText(text) }
    }

    @inline(__always)
    func appendText(_ text: UnsafeBufferPointer<UInt8>) {
        appendHead(MajorType.text, UInt64(text.count))
        append(UnsafeRawBufferPointer(text))
    }

    func appendByteString(_ bytes: UnsafeRawBufferPointer) {
        appendHead(MajorType.bytes, UInt64(bytes.count))
        append(bytes)
    }

    /// Throws if `levels` more levels at this depth exceed the limit.
    @inline(__always)
    func requireDepth(_ levels: Int, below depth: Int) throws(WireFailure) {
        guard depth &+ levels <= maximumDepth else { throw .tooDeep }
    }

    /// Appends an integer, or a bignum if it does not fit into major type 0 or 1 (RFC 8949, section 3.4.3).
    func append(magnitude: UInt128, isNegative: Bool, depth: Int) throws(WireFailure) {
        // A negative number -1 - n is stored as n.
        let argument = isNegative ? magnitude - 1 : magnitude
        if let short = UInt64(exactly: argument) {
            appendHead(isNegative ? MajorType.negative : MajorType.unsigned, short)
            return
        }
        try requireDepth(1, below: depth)
        appendHead(MajorType.tag, isNegative ? Tag.negativeBignum : Tag.bignum)
        withUnsafeBytes(of: argument.bigEndian) { digits in
            appendByteString(UnsafeRawBufferPointer(rebasing: digits[(argument.leadingZeroBitCount / 8)...]))
        }
    }

    func append(_ value: Int128, depth: Int) throws(WireFailure) {
        try append(magnitude: value.magnitude, isNegative: value < 0, depth: depth)
    }

    func append(_ value: UInt128, depth: Int) throws(WireFailure) {
        try append(magnitude: value, isNegative: false, depth: depth)
    }
}
