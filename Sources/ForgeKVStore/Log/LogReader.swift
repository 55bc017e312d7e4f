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
        at offset: Int64, count length: Int, _ body: (Span<UInt8>) -> Result
    ) throws(FileSystemError) -> Result? {
        guard offset >= 0, length >= 0, Int64(length) <= size - offset else { return nil }
        if offset < start || offset - start + Int64(length) > Int64(count) {
            try fill(from: offset, count: length)
            guard length <= count else { return nil }
        }
        let first = Int(offset - start)
        return body(buffer.span.extracting(first..<(first + length)))
    }

    /// Calls `body` with all buffered bytes from `offset` on, at least `length`; nil if the file ends before.
    mutating func withBytes<Result>(
        at offset: Int64, atLeast length: Int, _ body: (Span<UInt8>) -> Result
    ) throws(FileSystemError) -> Result? {
        guard try withBytes(at: offset, count: length, { _ in true }) != nil else { return nil }
        let first = Int(offset - start)
        return body(buffer.span.extracting(first..<count))
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
        // What was read before is gone if this fails.
        count = 0
        count = try fileSystem.readFully(descriptor, into: &buffer, count: wanted, at: offset)
        start = offset
    }
}

// MARK: Records

extension LogReader {
    /// A record that is intact.
    struct Record: Hashable, Sendable {
        let offset: Int64
        let frame: LogRecord.Frame
        let content: LogRecord.Content

        /// The sequence number of the first change.
        var firstSequence: UInt64 { frame.sequence - (content.count - 1) }

        var size: Int { LogRecord.frameSize + frame.payloadSize }

        var end: Int64 { offset + Int64(size) }
    }

    /// The record at an offset, if it is intact and may follow the record `sequence`.
    mutating func record(
        at offset: Int64, after sequence: UInt64, _ checksum: CRC32C
    ) throws(FileSystemError) -> Record? {
        guard let frame = try frame(at: offset, after: sequence), try isPlausible(frame, at: offset) else { return nil }
        let size = LogRecord.frameSize + frame.payloadSize
        // Verified in steps first: a forged frame could claim a record as large as the file.
        if size > Self.step, try !isIntact(at: offset, size: size, checksum) { return nil }
        let content = try withBytes(at: offset, count: size) { record in
            LogRecord.isIntact(record, checksum: checksum) ? LogRecord.forEachChange(in: record) : nil
        }
        guard let content, let content, content.count <= frame.sequence - sequence else { return nil }
        return Record(offset: offset, frame: frame, content: content)
    }

    /// The frame at an offset, if it is possible after the record `sequence` and the record fits into the file.
    mutating func frame(at offset: Int64, after sequence: UInt64) throws(FileSystemError) -> LogRecord.Frame? {
        let size = size
        let frame = try withBytes(at: offset, count: LogRecord.frameSize) { LogRecord.frame($0, after: sequence) }
        guard let frame, let frame, Int64(frame.payloadSize) <= size - offset - Int64(LogRecord.frameSize) else {
            return nil
        }
        return frame
    }

    /// Whether a payload may begin with the bytes after a frame.
    private mutating func isPlausible(_ frame: LogRecord.Frame, at offset: Int64) throws(FileSystemError) -> Bool {
        try withBytes(at: offset, count: LogRecord.frameSize + LogRecord.payloadPrefixSize) { bytes in
            LogRecord.isPlausible(bytes, frame)
        } ?? false
    }

    /// The size of a record that may begin at an offset, according to its first bytes; 0 if none may.
    mutating func sizeOfRecord(at offset: Int64, after sequence: UInt64) throws(FileSystemError) -> Int64 {
        guard let frame = try frame(at: offset, after: sequence), try isPlausible(frame, at: offset) else { return 0 }
        return Int64(LogRecord.frameSize + frame.payloadSize)
    }

    /// Whether the checksum of a record of any size is correct; reads it in steps.
    private mutating func isIntact(at offset: Int64, size: Int, _ start: CRC32C) throws(FileSystemError) -> Bool {
        let frame = try withBytes(at: offset, count: LogRecord.frameSize) { LogRecord.frame($0) }
        guard let frame else { return false }
        var checksum = start
        var position = offset
        let end = offset + Int64(size)
        while position < end {
            let length = Int(min(Int64(Self.step), end - position))
            // The checksum does not cover itself, the last four bytes of the frame.
            let isFirst = position == offset
            let isRead: Void? = try withBytes(at: position, count: length) { bytes in
                if isFirst { checksum.update(bytes, 0..<LogRecord.checksumOffset) }
                checksum.update(bytes, (isFirst ? LogRecord.frameSize : 0)..<bytes.count)
            }
            guard isRead != nil else { return false }
            position += Int64(length)
        }
        return checksum.value == frame.checksum
    }
}
