import ForgeFileSystem

/// Reads a file through a moving window, so that memory is bounded by the largest record, not by the file.
struct LogReader {
    private let fileSystem: any POSIXFileSystem
    private let descriptor: Descriptor
    private var buffer: [UInt8] = []
    private var start: Int64 = 0
    private var count = 0

    /// The size of the file when the reader was created.
    let size: Int64

    /// The number of bytes that are read at once, unless more are needed together.
    static let step = 1 << 20

    init(_ descriptor: Descriptor, size: Int64, on fileSystem: any POSIXFileSystem) {
        self.fileSystem = fileSystem
        self.descriptor = descriptor
        self.size = size
    }

    /// Calls `body` with `length` bytes from `offset` on; nil if the file ends before.
    mutating func withBytes<Result>(
        at offset: Int64, count length: Int, _ body: (UnsafeRawBufferPointer) -> Result
    ) throws(FileSystemError) -> Result? {
        guard offset >= 0, length >= 0, Int64(length) <= size - offset else { return nil }
        if offset < start || offset - start + Int64(length) > Int64(count) {
            try fill(from: offset, count: length)
            guard length <= count else { return nil }
        }
        let first = Int(offset - start)
        return buffer.withUnsafeBytes { body(UnsafeRawBufferPointer(rebasing: $0[first..<(first + length)])) }
    }

    /// Calls `body` with all buffered bytes from `offset` on, at least `length`; nil if the file ends before.
    mutating func withBytes<Result>(
        at offset: Int64, atLeast length: Int, _ body: (UnsafeRawBufferPointer) -> Result
    ) throws(FileSystemError) -> Result? {
        guard try withBytes(at: offset, count: length, { _ in true }) != nil else { return nil }
        let first = Int(offset - start)
        return buffer.withUnsafeBytes { body(UnsafeRawBufferPointer(rebasing: $0[first..<count])) }
    }

    /// Whether the checksum of a record of any size is correct; reads it in steps.
    mutating func isIntact(at offset: Int64, size: Int, _ start: CRC32C) throws(FileSystemError) -> Bool {
        guard let expected = try withBytes(at: offset, count: LogRecord.frameSize, LogRecord.frame)?.checksum else {
            return false
        }
        var checksum = start
        var position = offset
        let end = offset + Int64(size)
        while position < end {
            let length = Int(min(Int64(Self.step), end - position))
            // The checksum does not cover itself, the last four bytes of the frame.
            let isFirst = position == offset
            let isRead: Void? = try withBytes(at: position, count: length) { bytes in
                if isFirst { checksum.update(UnsafeRawBufferPointer(rebasing: bytes[..<16])) }
                checksum.update(UnsafeRawBufferPointer(rebasing: bytes[(isFirst ? LogRecord.frameSize : 0)...]))
            }
            guard isRead != nil else { return false }
            position += Int64(length)
        }
        return checksum.value == expected
    }

    /// The offset of the zeros at the end of the file; at least `offset`.
    ///
    /// A hole after zeros is not read; it can have any size.
    mutating func contentEnd(from offset: Int64) throws(FileSystemError) -> Int64 {
        var offset = offset
        var end = offset
        while offset < size {
            let length = Int(min(Int64(Self.step), size - offset))
            let last = try withBytes(at: offset, count: length) { $0.lastNonZeroIndex }
            // The file has become shorter meanwhile; later reads will detect that.
            guard let last else { return size }
            offset += Int64(length)
            if let last {
                end = offset - Int64(length) + Int64(last) + 1
            } else {
                offset = try endOfHole(at: offset)
            }
        }
        return end
    }

    /// The first offset from `offset` on that is not in a hole, at most the size.
    func endOfHole(at offset: Int64) throws(FileSystemError) -> Int64 {
        min(try fileSystem.nextData(of: descriptor, at: offset) ?? size, size)
    }

    private mutating func fill(from offset: Int64, count length: Int) throws(FileSystemError) {
        let wanted = Int(min(Int64(max(length, Self.step)), size - offset))
        if buffer.count < wanted { buffer = [UInt8](repeating: 0, count: wanted) }
        let fileSystem = fileSystem
        let descriptor = descriptor
        let outcome = buffer.withUnsafeMutableBytes { bytes -> Swift.Result<Int, FileSystemError> in
            do throws(FileSystemError) {
                let target = UnsafeMutableRawBufferPointer(rebasing: bytes[..<wanted])
                return .success(try fileSystem.readFully(descriptor, into: target, at: offset))
            } catch {
                return .failure(error)
            }
        }
        count = 0
        count = try outcome.get()
        start = offset
    }
}

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
