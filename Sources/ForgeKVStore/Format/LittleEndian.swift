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
