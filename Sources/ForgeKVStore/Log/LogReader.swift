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
        // A failed read leaves no valid bytes in the buffer.
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

/// How records are read: one parser of frames, and one visitor of the changes in a record.
extension LogRecord {
    /// Parses the frame in the first 20 bytes.
    @inline(__always)
    static func frame(_ bytes: Span<UInt8>) -> Frame {
        Frame(
            payloadSize: min(Int(clamping: bytes.integer(at: 0, as: UInt32.self)), maximumPayloadSize),
            sequence: bytes.integer(at: 4, as: UInt64.self), unflushedCount: bytes.integer(at: 12, as: UInt32.self),
            checksum: bytes.integer(at: checksumOffset, as: UInt32.self))
    }

    /// The frame in the first 20 bytes; nil unless it is possible in a record that follows the record `sequence`.
    @inline(__always)
    static func frame(_ bytes: Span<UInt8>, after sequence: UInt64) -> Frame? {
        let frame = frame(bytes)
        guard frame.payloadSize >= payloadPrefixSize, frame.sequence > sequence, frame.sequence <= maximumSequence,
            // Otherwise the flushed sequence number would be negative.
            frame.unflushedCount < frame.sequence
        else { return nil }
        return frame
    }

    /// Whether a record may begin with these bytes, the frame and the prefix of the payload. Without this test, numbers
    /// in a value would often be mistaken for frames, and each would cost a checksum over its supposed payload.
    static func isPlausible(_ bytes: Span<UInt8>, _ frame: Frame) -> Bool {
        let nameSize = Int(bytes.integer(at: frameSize + 2, as: UInt16.self))
        return Code(rawValue: bytes[frameSize]) != nil && bytes[frameSize + 1] <= retainedFlag
            && nameSize <= min(KeyName.maximumLength, frame.payloadSize - payloadPrefixSize)
    }

    /// Whether the checksum of a record is correct.
    @inline(__always)
    static func isIntact(_ record: Span<UInt8>, checksum start: CRC32C) -> Bool {
        var checksum = start
        checksum.update(record, 0..<checksumOffset)
        checksum.update(record, frameSize..<record.count)
        return checksum.value == record.integer(at: checksumOffset, as: UInt32.self)
    }

    /// Whether a record is carried over by compaction, according to its flags.
    static func isRetained(_ record: Span<UInt8>) -> Bool { record[frameSize + 1] == retainedFlag }
}

// MARK: Changes

extension LogRecord {
    /// The content of a record with a valid payload.
    struct Content: Hashable, Sendable {
        var code: Code

        /// Whether compaction has carried the record over.
        var isRetained: Bool

        /// How many sequence numbers the record takes; the frame has the last of them.
        var count: UInt64 = 1
    }

    /// The change of one name: where in the record the name and the value are.
    struct Change {
        var name: Range<Int>

        /// Nil for a removal.
        var value: Range<Int>?
    }

    /// Calls `body` with every change of a name in a record, in order; the record that removes everything and the flush
    /// marker have none.
    ///
    /// Frame and checksum are not looked at.
    ///
    /// - Returns: Nil unless the payload is completely valid. `body` was called for the changes before the first
    ///   invalid one: a batch is applied as a whole or not at all, so look at it without a body first.
    @inline(__always)
    @discardableResult
    static func forEachChange(in record: Span<UInt8>, _ body: (Change) -> Void = { _ in }) -> Content? {
        let start = frameSize + payloadPrefixSize
        guard record.count >= start, let code = Code(rawValue: record[frameSize]),
            code.permits(flags: record[frameSize + 1])
        else { return nil }
        var content = Content(code: code, isRetained: isRetained(record))
        let nameCount = Int(record.integer(at: frameSize + 2, as: UInt16.self))
        switch code {
        case .set, .remove:
            guard
                let change = change(code, record, at: start, nameCount, record.count &- start &- nameCount)
            else { return nil }
            body(change)
        case .removeAll, .flushed: guard record.count == start, nameCount == 0 else { return nil }
        case .batch:
            guard nameCount == 0 else { return nil }
            content.count = 0
            var offset = start
            while offset < record.count {
                guard let change = changeOfBatch(record, at: offset) else { return nil }
                body(change)
                content.count += 1
                offset = change.value?.upperBound ?? change.name.upperBound
            }
            guard content.count > 0 else { return nil }
        }
        return content
    }

    private static func changeOfBatch(_ record: Span<UInt8>, at offset: Int) -> Change? {
        guard record.count - offset >= batchPrefixSize, let code = Code(rawValue: record[offset]),
            record[offset + 1] == 0
        else { return nil }
        let nameCount = Int(record.integer(at: offset + 2, as: UInt16.self))
        let valueCount = Int(clamping: record.integer(at: offset + 4, as: UInt32.self))
        return change(code, record, at: offset + batchPrefixSize, nameCount, valueCount)
    }

    /// A set or a removal whose name begins at `start`; nil for another code, a removal with a value, an invalid name,
    /// and what does not fit into the record.
    @inline(__always)
    private static func change(
        _ code: Code, _ record: Span<UInt8>, at start: Int, _ nameCount: Int, _ valueCount: Int
    ) -> Change? {
        guard nameCount <= KeyName.maximumLength, nameCount <= record.count &- start, valueCount >= 0,
            valueCount <= record.count &- start &- nameCount
        else { return nil }
        let name = start..<start &+ nameCount
        guard record.isUTF8(name) else { return nil }
        switch code {
        case .set: return Change(name: name, value: name.upperBound..<name.upperBound &+ valueCount)
        case .remove: return valueCount == 0 ? Change(name: name, value: nil) : nil
        case .removeAll, .flushed, .batch: return nil
        }
    }
}
