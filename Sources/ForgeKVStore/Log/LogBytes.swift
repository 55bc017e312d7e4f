import ForgeFileSystem

// Memory safety: A load from a span is checked, and every pattern of bits is a number. A load from a buffer lies
// within it, as the caller has found out from its length. Nothing here parses: code that reads bytes from outside
// does that through spans.

/// Bytes as code that parses them reads them: every access is checked.
extension Span<UInt8> {
    /// The little-endian number at `offset`.
    @inline(__always)
    func integer<Number: FixedWidthInteger & BitwiseCopyable>(at offset: Int, as type: Number.Type) -> Number {
        // The bounds are checked, and every pattern of bits is a number.
        unsafe Number(littleEndian: bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: type))
    }

    /// Whether a range holds valid UTF-8.
    @inline(__always)
    func isUTF8(_ range: Range<Int>) -> Bool {
        var offset = range.lowerBound
        var bits: UInt64 = 0
        while offset &+ 8 <= range.upperBound {
            bits |= integer(at: offset, as: UInt64.self)
            offset &+= 8
        }
        while offset < range.upperBound {
            bits |= UInt64(self[offset])
            offset &+= 1
        }
        return bits & 0x8080_8080_8080_8080 == 0 || isLongUTF8(range)
    }

    @inline(never)
    private func isLongUTF8(_ range: Range<Int>) -> Bool {
        unsafe extracting(range).withUnsafeBufferPointer { unsafe String(validating: $0, as: UTF8.self) != nil }
    }

    /// The index of the last byte that is not zero.
    var lastNonZeroIndex: Int? {
        typealias Words = (UInt64, UInt64, UInt64, UInt64)
        let bytes = unsafe bytes
        var end = count
        while end >= 32 {
            let words = unsafe bytes.unsafeLoadUnaligned(fromByteOffset: end - 32, as: Words.self)
            guard words.0 | words.1 | words.2 | words.3 == 0 else { break }
            end -= 32
        }
        while end > 0, self[end - 1] == 0 { end -= 1 }
        return end > 0 ? end - 1 : nil
    }
}

extension [UInt8] {
    /// A copy of the bytes.
    init(_ bytes: Span<UInt8>) { self = unsafe bytes.withUnsafeBufferPointer { unsafe Array($0) } }
}

extension KeyName {
    /// The name in a range of valid UTF-8.
    init(_ bytes: Span<UInt8>) {
        unsafe self.init(bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) })
    }
}

extension CRC32C {
    /// Adds the bytes in a range.
    @inline(__always)
    mutating func update(_ bytes: Span<UInt8>, _ range: Range<Int>) {
        unsafe bytes.extracting(range).withUnsafeBytes { unsafe update($0) }
    }
}

// MARK: Pointers

extension UnsafeRawBufferPointer {
    /// The little-endian number at `offset`.
    @inline(__always)
    func integer<Number: FixedWidthInteger & BitwiseCopyable>(at offset: Int, as type: Number.Type) -> Number {
        unsafe Number(littleEndian: loadUnaligned(fromByteOffset: offset, as: type))
    }
}

extension [UInt8] {
    /// Appends the bytes of a number in little-endian order.
    mutating func append(integer: some FixedWidthInteger) {
        unsafe Swift.withUnsafeBytes(of: integer.littleEndian) { unsafe append(contentsOf: $0) }
    }
}

extension UnsafeRawBufferPointer {
    /// Whether two byte ranges are equal.
    @inline(__always)
    func isEqual(to other: UnsafeRawBufferPointer) -> Bool {
        guard count == other.count else { return false }
        guard count >= 8 else {
            for offset in 0..<count where unsafe self[offset] != other[offset] { return false }
            return true
        }
        var offset = 0
        while offset &+ 8 < count {
            guard unsafe word(at: offset) == other.word(at: offset) else { return false }
            offset &+= 8
        }
        // The last eight bytes, some of them compared twice.
        return unsafe word(at: count &- 8) == other.word(at: count &- 8)
    }

    @inline(__always)
    private func word(at offset: Int) -> UInt64 {
        unsafe loadUnaligned(fromByteOffset: offset, as: UInt64.self)
    }
}

extension UnsafeRawBufferPointer {
    /// No bytes.
    static var empty: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(start: nil, count: 0) }
}

extension [UInt8] {
    /// `withUnsafeBytes` with typed errors.
    func withBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let result = unsafe withUnsafeBytes { bytes -> Swift.Result<Result, Failure> in
            do throws(Failure) {
                return unsafe .success(try body(bytes))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }
}
