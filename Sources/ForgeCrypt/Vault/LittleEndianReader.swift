/// Reads integers and runs of bytes; each length is checked against the remaining bytes.
struct LittleEndianReader {
    private(set) var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) {
        rest = bytes
    }

    mutating func bytes(_ count: Int) throws(VaultFailure) -> ArraySlice<UInt8> {
        guard count >= 0, count <= rest.count else { throw VaultFailure(.tampered, "a length leads beyond the end") }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }

    mutating func integer<Number: FixedWidthInteger>() throws(VaultFailure) -> Number {
        try bytes(Number.bitWidth / 8).reversed().reduce(0) { $0 << 8 | Number($1) }
    }
}

extension [UInt8] {
    mutating func appendLittleEndian(_ number: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: number.littleEndian) { append(contentsOf: $0) }
    }
}
