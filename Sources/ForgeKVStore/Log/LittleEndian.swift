extension UnsafeRawBufferPointer {
    /// The little-endian number at `offset`.
    @inline(__always)
    func integer<Number: FixedWidthInteger & BitwiseCopyable>(at offset: Int, as type: Number.Type) -> Number {
        Number(littleEndian: loadUnaligned(fromByteOffset: offset, as: type))
    }
}

extension [UInt8] {
    /// Appends the bytes of a number in little-endian order.
    mutating func append(integer: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: integer.littleEndian) { append(contentsOf: $0) }
    }

    /// Replaces the bytes from `offset` on by those of a number, in little-endian order.
    mutating func replace(at offset: Int, integer: some FixedWidthInteger & BitwiseCopyable) {
        withUnsafeMutableBytes { $0.storeBytes(of: integer.littleEndian, toByteOffset: offset, as: type(of: integer)) }
    }
}

extension UnsafeRawBufferPointer {
    /// Whether two byte ranges are equal.
    @inline(__always)
    func isEqual(to other: UnsafeRawBufferPointer) -> Bool {
        guard count == other.count else { return false }
        guard count >= 8 else {
            for offset in 0..<count where self[offset] != other[offset] { return false }
            return true
        }
        var offset = 0
        while offset &+ 8 < count {
            guard word(at: offset) == other.word(at: offset) else { return false }
            offset &+= 8
        }
        // The last eight bytes, some of them compared twice.
        return word(at: count &- 8) == other.word(at: count &- 8)
    }

    @inline(__always)
    private func word(at offset: Int) -> UInt64 {
        loadUnaligned(fromByteOffset: offset, as: UInt64.self)
    }
}

extension UnsafeRawBufferPointer {
    /// The index of the last byte that is not zero.
    var lastNonZeroIndex: Int? {
        var end = count
        while end >= 8, loadUnaligned(fromByteOffset: end - 8, as: UInt64.self) == 0 { end -= 8 }
        while end > 0, self[end - 1] == 0 { end -= 1 }
        return end > 0 ? end - 1 : nil
    }
}

extension UnsafeMutableRawBufferPointer {
    /// Writes the bytes of a number from `offset` on, in little-endian order.
    @inline(__always)
    func store(_ number: some FixedWidthInteger & BitwiseCopyable, at offset: Int) {
        storeBytes(of: number.littleEndian, toByteOffset: offset, as: type(of: number))
    }
}

extension UnsafeRawBufferPointer {
    /// No bytes.
    static var empty: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }
}

extension [UInt8] {
    /// `withUnsafeBytes` with typed errors.
    func withBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let result = withUnsafeBytes { bytes -> Swift.Result<Result, Failure> in
            do throws(Failure) {
                return .success(try body(bytes))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }
}
