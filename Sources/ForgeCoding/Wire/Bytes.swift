import Foundation
import Synchronization

// The memory of values that are being encoded, and strings as bytes and back. This is the only file of the module with
// unsafe constructs. The invariants that make it safe: a sink alone owns its memory, of which the first `count` bytes
// are initialised, and every access lies within them; a pointer that leaves the file is valid until its owner changes.
// Nothing here parses: bytes from outside are read through spans, whose every access is checked.

/// A growable output buffer.
///
/// Raw memory instead of an array: an append is a comparison and a store. Not thread-safe; one encoding owns it.
@safe
final class ByteSink {
    private var base: UnsafeMutablePointer<UInt8>
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
        unsafe base = .allocate(capacity: capacity)
    }

    deinit { unsafe base.deallocate() }

    var bytes: [UInt8] { bytes(0..<count) }

    func bytes(_ range: Range<Int>) -> [UInt8] {
        precondition(range.lowerBound >= 0 && range.upperBound <= count)
        return unsafe Array(UnsafeBufferPointer(start: base + range.lowerBound, count: range.count))
    }

    @inline(__always)
    func reserve(_ extra: Int) {
        if capacity &- count < extra { grow(by: extra) }
    }

    @inline(never)
    private func grow(by extra: Int) {
        capacity = max(capacity * 2, count + extra)
        let larger = UnsafeMutablePointer<UInt8>.allocate(capacity: capacity)
        unsafe larger.update(from: base, count: count)
        unsafe base.deallocate()
        unsafe base = larger
    }

    @inline(__always)
    func append(_ byte: UInt8) {
        reserve(1)
        unsafe base[count] = byte
        count &+= 1
    }

    /// Appends a first byte and `value` in big-endian order.
    @inline(__always)
    func append<Value: FixedWidthInteger & BitwiseCopyable>(_ first: UInt8, _ value: Value) {
        reserve(1 + MemoryLayout<Value>.size)
        unsafe base[count] = first
        unsafe UnsafeMutableRawPointer(base + count + 1).storeBytes(of: value.bigEndian, as: Value.self)
        count &+= 1 + MemoryLayout<Value>.size
    }

    @inline(__always)
    private func append(_ source: UnsafeRawBufferPointer) {
        guard let start = source.baseAddress else { return }
        reserve(source.count)
        unsafe UnsafeMutableRawPointer(base + count).copyMemory(from: start, byteCount: source.count)
        count &+= source.count
    }

    @inline(__always)
    func append(_ source: Span<UInt8>) {
        unsafe source.withUnsafeBytes { unsafe append($0) }
    }

    func truncate(to length: Int) {
        precondition(length <= count)
        count = length
    }

    /// Empties the sink and keeps its memory.
    func clear() {
        count = 0
        failure = nil
    }

    /// Replaces a byte.
    func write(_ byte: UInt8, at offset: Int) {
        precondition(offset >= 0 && offset < count)
        unsafe base[offset] = byte
    }

    /// Inserts `length` zeros at `offset`.
    func openGap(at offset: Int, length: Int) {
        let end = count
        extend(by: length)
        move(offset..<end, to: offset + length)
    }

    func remove(_ range: Range<Int>) {
        move(range.upperBound..<count, to: range.lowerBound)
        count -= range.count
    }

    /// Appends `extra` zeros, to be replaced with ``move(_:to:)`` and ``write(_:at:)``.
    func extend(by extra: Int) {
        reserve(extra)
        unsafe (base + count).initialize(repeating: 0, count: extra)
        count += extra
    }

    /// Moves bytes within the sink; the ranges may overlap.
    func move(_ range: Range<Int>, to offset: Int) {
        precondition(range.lowerBound >= 0 && range.upperBound <= count && offset >= 0 && offset <= count - range.count)
        unsafe UnsafeMutableRawPointer(base + offset).copyMemory(from: base + range.lowerBound, byteCount: range.count)
    }

    /// Replaces bytes by those of another sink.
    func write(_ other: ByteSink, at offset: Int) {
        precondition(offset >= 0 && offset <= count - other.count)
        unsafe UnsafeMutableRawPointer(base + offset).copyMemory(from: other.base, byteCount: other.count)
    }
}

// MARK: Strings and values

extension ByteSink {
    @inline(__always)
    func append(_ value: String) {
        // Contiguous UTF-8 is appended without copying and retaining the string.
        let isAppended: Void? = unsafe value.utf8.withContiguousStorageIfAvailable { unsafe appendText($0) }
        if isAppended != nil { return }
        var value = value
        value.withUTF8 { unsafe appendText($0) }
    }

    /// Appends a key of a map, and returns its fingerprint.
    @inline(__always)
    func appendKey(_ name: String) -> UInt64 {
        var name = name
        return name.withUTF8 { text in
            unsafe appendText(text)
            return unsafe KeyFilter.fingerprint(text.span)
        }
    }

    @inline(__always)
    private func appendText(_ text: UnsafeBufferPointer<UInt8>) {
        appendHead(MajorType.text, UInt64(text.count))
        unsafe append(UnsafeRawBufferPointer(text))
    }

    func append(_ value: Data) {
        unsafe value.withUnsafeBytes { bytes in
            appendHead(MajorType.bytes, UInt64(bytes.count))
            unsafe append(bytes)
        }
    }

    /// A seeded hash of a range, which prevents crafted collisions.
    func hash(_ range: Range<Int>) -> Int {
        precondition(range.lowerBound >= 0 && range.upperBound <= count)
        var hasher = Hasher()
        unsafe hasher.combine(bytes: UnsafeRawBufferPointer(start: base + range.lowerBound, count: range.count))
        return hasher.finalize()
    }

    /// The bytes, valid until the next change.
    fileprivate var buffer: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(start: base, count: count) }
}

extension Span<UInt8> {
    /// The integer at an offset, in the order of its bytes in memory.
    @inline(__always)
    func load<Value: FixedWidthInteger & BitwiseCopyable>(_ offset: Int, as type: Value.Type) -> Value {
        precondition(offset >= 0 && offset <= count &- MemoryLayout<Value>.size)
        return unsafe bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: type)
    }

    /// The fingerprint of a key if a range holds its name; nil if it holds another one.
    @inline(__always)
    func fingerprint(of name: inout String, in range: Range<Int>) -> UInt64? {
        name.withUTF8 { text in
            guard range.count == text.count, unsafe isEqual(to: text, at: range.lowerBound) else { return nil }
            return unsafe KeyFilter.fingerprint(text.span)
        }
    }

    /// Whether a range holds a name.
    @inline(__always)
    func holds(_ name: inout String, in range: Range<Int>) -> Bool {
        name.withUTF8 { unsafe range.count == $0.count && isEqual(to: $0, at: range.lowerBound) }
    }

    @inline(__always)
    private func isEqual(to text: UnsafeBufferPointer<UInt8>, at offset: Int) -> Bool {
        precondition(offset >= 0 && offset <= count &- text.count)
        guard let other = text.baseAddress else { return true }
        return unsafe withUnsafeBufferPointer {
            unsafe memcmp($0.baseAddress.unsafelyUnwrapped + offset, other, text.count) == 0
        }
    }

    /// A seeded hash of a range, which prevents crafted collisions.
    func hash(_ range: Range<Int>) -> Int {
        var hasher = Hasher()
        unsafe extracting(range).withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
        return hasher.finalize()
    }

    /// The string in a range of valid UTF-8.
    @inline(__always)
    func text(_ range: Range<Int>) -> String {
        unsafe extracting(range).withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
    }

    func data(_ range: Range<Int>) -> Data {
        unsafe extracting(range).withUnsafeBufferPointer { unsafe Data($0) }
    }
}

extension String {
    /// A seeded hash of the UTF-8, as ``Span/hash(_:)`` gives it.
    mutating func hashOfUTF8() -> Int {
        var hasher = Hasher()
        withUTF8 { unsafe hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        return hasher.finalize()
    }
}

/// Whether two types are the same; compares sizes first, which generic code can specialise.
@inline(__always)
func isSame<First, Second>(_ first: First.Type, _ second: Second.Type) -> Bool {
    MemoryLayout<First>.size == MemoryLayout<Second>.size && first == second
}

/// Reinterprets a value as a type that ``isSame(_:_:)`` has verified; avoids the metadata lookup of a cast.
@inline(__always)
func reinterpret<Source, Target>(_ value: Source, as type: Target.Type) -> Target {
    unsafe unsafeBitCast(value, to: Target.self)
}

// MARK: Buffers for other modules

/// The bytes of an encoded value, in a buffer that returns to the cache.
package struct EncodedBytes: ~Copyable {
    let sink: ByteSink

    init(_ sink: ByteSink) {
        self.sink = sink
    }

    deinit { SinkCache.giveBack(sink) }

    /// The number of bytes.
    package var count: Int { sink.count }

    /// A copy of the bytes.
    package var array: [UInt8] { sink.bytes }

    /// The bytes, valid for the lifetime of this value.
    package var bytes: UnsafeRawBufferPointer { unsafe sink.buffer }
}

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
        guard let address = unsafe UnsafeRawPointer(bitPattern: bits) else {
            return ByteSink(capacity: 256, maximumDepth: maximumDepth, userInfo: [:])
        }
        let sink = unsafe Unmanaged<ByteSink>.fromOpaque(address).takeRetainedValue()
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
        let own = unsafe Unmanaged.passRetained(sink)
        let (isCached, _) = unsafe cached.compareExchange(
            expected: 0, desired: UInt(bitPattern: own.toOpaque()), ordering: .releasing)
        if !isCached { unsafe own.release() }
    }
}

extension ByteSink {
    func appendEnvelopeHeader(_ schemaVersion: UInt32) {
        append(ValueEnvelope.firstByte)
        var rest = schemaVersion
        while rest >= 0x80 {
            append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        append(UInt8(truncatingIfNeeded: rest))
    }

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
}

/// Encodes numbers and strings as ``ValueCoder`` does under schema version 1, into a buffer of its own.
///
/// For callers that encode one value at a time under a lock: a call does not allocate once the buffer has grown.
@safe
package struct PlainEncoder: ~Copyable, @unchecked Sendable {
    // `@unchecked Sendable`: the sink has no other owner.

    private let owned: Unmanaged<ByteSink>

    package init() {
        unsafe owned = .passRetained(ByteSink(capacity: 64, maximumDepth: 0, userInfo: [:]))
    }

    deinit { unsafe owned.release() }

    /// Calls `body` with the sink, without retaining it, and returns the bytes that it holds.
    @inline(__always)
    private func encode(_ body: (ByteSink) -> Void) -> UnsafeRawBufferPointer {
        unsafe owned._withUnsafeGuaranteedRef { sink in
            sink.clear()
            sink.appendEnvelopeHeader(1)
            body(sink)
            return unsafe sink.buffer
        }
    }

    /// Encodes an integer; the result of every `encode` is valid until the next call.
    package mutating func encode(_ value: Int64) -> UnsafeRawBufferPointer {
        unsafe encode { $0.appendSigned(value) }
    }

    package mutating func encode(_ value: UInt64) -> UnsafeRawBufferPointer {
        unsafe encode { $0.appendUnsigned(value) }
    }

    package mutating func encode(_ value: Double) -> UnsafeRawBufferPointer {
        unsafe encode { $0.append(value) }
    }

    package mutating func encode(_ value: Float) -> UnsafeRawBufferPointer {
        unsafe encode { $0.append(value) }
    }

    package mutating func encode(_ value: Bool) -> UnsafeRawBufferPointer {
        unsafe encode { $0.append(value) }
    }

    package mutating func encode(_ value: String) -> UnsafeRawBufferPointer {
        unsafe encode { $0.append(value) }
    }
}
