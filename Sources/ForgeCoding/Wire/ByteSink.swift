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

    var bytes: [UInt8] { Array(UnsafeBufferPointer(start: base, count: count)) }

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
