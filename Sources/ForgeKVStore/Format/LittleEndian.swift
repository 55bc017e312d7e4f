extension UnsafeRawBufferPointer {
    /// The number whose bytes start at `offset`, least significant first.
    func integer<Number: FixedWidthInteger & BitwiseCopyable>(at offset: Int, as type: Number.Type) -> Number {
        Number(littleEndian: loadUnaligned(fromByteOffset: offset, as: type))
    }
}

extension [UInt8] {
    /// Appends the bytes of a number, least significant first.
    mutating func append(integer: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: integer.littleEndian) { append(contentsOf: $0) }
    }

    /// Replaces the bytes from `offset` on by those of a number.
    mutating func replace(at offset: Int, integer: some FixedWidthInteger & BitwiseCopyable) {
        withUnsafeMutableBytes { $0.storeBytes(of: integer.littleEndian, toByteOffset: offset, as: type(of: integer)) }
    }
}

extension UnsafeRawBufferPointer {
    /// Whether two runs of bytes are the same.
    @inline(__always)
    func isEqual(to other: UnsafeRawBufferPointer) -> Bool {
        guard count == other.count else { return false }
        var offset = 0
        while count - offset >= 8 {
            guard integer(at: offset, as: UInt64.self) == other.integer(at: offset, as: UInt64.self) else { return false }
            offset += 8
        }
        while offset < count {
            guard self[offset] == other[offset] else { return false }
            offset += 1
        }
        return true
    }
}

extension UnsafeMutableRawBufferPointer {
    /// Writes the bytes of a number from `offset` on, least significant first.
    @inline(__always)
    func store(_ number: some FixedWidthInteger & BitwiseCopyable, at offset: Int) {
        storeBytes(of: number.littleEndian, toByteOffset: offset, as: type(of: number))
    }
}
