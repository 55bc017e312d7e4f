import ForgeFileSystem

// Memory safety: The memory for a record has exactly the size that the lengths of its name and value give; a buffer's
// checked subscript cuts every part of it. `LogReader` reads records through spans.

/// A record of a log: a frame of 20 bytes and a payload that describes the change.
enum LogRecord {
    /// The frame of a record, before the payload.
    struct Frame: Hashable, Sendable {
        var payloadSize: Int
        var sequence: UInt64
        var unflushedCount: UInt32
        var checksum: UInt32

        /// The sequence number of the last record that had reached the device when this one was written; 0 for none.
        var flushedSequence: UInt64 {
            let (flushed, overflow) = sequence.subtractingReportingOverflow(UInt64(unflushedCount) + 1)
            return overflow ? 0 : flushed
        }
    }

    /// The payload's length, the sequence number, the number of unflushed records before it, and the checksum.
    static let frameSize = 20

    /// Where the checksum is in the frame. It covers everything else.
    static let checksumOffset = 16

    /// The operation, a byte of flags, and the length of the name.
    static let payloadPrefixSize = 4

    /// The flag of a record carried over by compaction, with its sequence number. Numbers before it may be missing:
    /// their changes are obsolete.
    static let retainedFlag: UInt8 = 1

    /// The highest valid sequence number: a log that takes one per nanosecond reaches it in 146 years.
    static let maximumSequence: UInt64 = 1 << 62

    /// The maximum payload size that the frame can represent and memory can hold.
    static let maximumPayloadSize = Int(clamping: min(Int64(UInt32.max), Int64(Int.max) - Int64(frameSize)))

    /// The size of a record.
    static func size(nameCount: Int, valueSize: Int) -> Int {
        frameSize + payloadPrefixSize + nameCount + valueSize
    }

    /// Writes a record into memory of ``size(nameCount:valueSize:)`` bytes.
    ///
    /// `name` is empty for codes without a key; `value` is the encoded value for `.set`, the content for `.batch` and
    /// empty otherwise.
    static func write(
        _ code: Code, flags: UInt8, _ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, sequence: UInt64,
        unflushedCount: UInt32, checksum start: CRC32C, to record: UnsafeMutableRawBufferPointer
    ) {
        unsafe record.store(UInt32(record.count - frameSize), at: 0)
        unsafe record.store(sequence, at: 4)
        unsafe record[frameSize] = code.rawValue
        unsafe record[frameSize + 1] = flags
        // Names have at most 1,024 bytes; every set and remove has checked that.
        unsafe record.store(UInt16(name.count), at: frameSize + 2)
        let payload = frameSize + payloadPrefixSize
        unsafe UnsafeMutableRawBufferPointer(rebasing: record[payload...]).copyMemory(from: name)
        unsafe UnsafeMutableRawBufferPointer(rebasing: record[(payload + name.count)...]).copyMemory(from: value)
        unsafe addChecksum(record, unflushedCount: unflushedCount, checksum: start)
    }

    /// Appends a record to an array; see above.
    static func append(
        _ code: Code, flags: UInt8, _ name: Span<UInt8>, _ value: Span<UInt8>, sequence: UInt64,
        checksum: CRC32C, to records: inout [UInt8]
    ) {
        let start = records.count
        records.append(contentsOf: repeatElement(0, count: size(nameCount: name.count, valueSize: value.count)))
        unsafe records.withUnsafeMutableBytes { bytes in
            let record = unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[start...])
            unsafe name.withUnsafeBytes { name in
                unsafe value.withUnsafeBytes { value in
                    unsafe write(
                        code, flags: flags, name, value, sequence: sequence, unflushedCount: 0, checksum: checksum,
                        to: record)
                }
            }
        }
    }

    /// Completes the record in a range of an array; see below.
    static func addChecksum(
        to record: Range<Int>, of records: inout [UInt8], unflushedCount: UInt32, checksum: CRC32C
    ) {
        unsafe records.withUnsafeMutableBytes { bytes in
            unsafe addChecksum(
                UnsafeMutableRawBufferPointer(rebasing: bytes[record]), unflushedCount: unflushedCount,
                checksum: checksum)
        }
    }

    /// Completes a record with the number of unflushed records and its checksum.
    static func addChecksum(_ record: UnsafeMutableRawBufferPointer, unflushedCount: UInt32, checksum start: CRC32C) {
        unsafe record.store(unflushedCount, at: 12)
        var checksum = start
        unsafe checksum.update(UnsafeRawBufferPointer(rebasing: record[..<checksumOffset]))
        unsafe checksum.update(UnsafeRawBufferPointer(rebasing: record[frameSize...]))
        unsafe record.store(checksum.value, at: checksumOffset)
    }

    /// The code of a change in a record.
    enum Code: UInt8 {
        case set = 1
        case remove = 2
        case removeAll = 3
        case flushed = 4
        case batch = 5

        /// Whether a record with this code may have a byte of flags: only a value and a flush marker can be carried
        /// over by compaction.
        func permits(flags: UInt8) -> Bool {
            flags == 0 || (flags == LogRecord.retainedFlag && (self == .set || self == .flushed))
        }

        /// Whether space is kept for records with this code: they free some, or end the log.
        var isPossibleOnFullDevice: Bool {
            switch self {
            case .remove, .removeAll, .flushed: true
            case .set, .batch: false
            }
        }
    }
}

/// The content of a batch, behind the prefix of the payload: for each change its operation, a zero, the lengths of name
/// and value, the name and the value.
extension LogRecord {
    /// The operation, a zero, the length of the name (two bytes) and of the value (four bytes).
    static let batchPrefixSize = 8

    /// Appends a change to the content of a batch.
    static func appendToBatch(_ code: Code, _ name: KeyName, _ value: [UInt8], _ content: inout [UInt8]) {
        content.append(code.rawValue)
        content.append(0)
        content.append(integer: UInt16(name.count))
        content.append(integer: UInt32(value.count))
        unsafe name.withBytes { unsafe content.append(contentsOf: $0) }
        content += value
    }
}

extension UnsafeMutableRawBufferPointer {
    /// Writes the bytes of a number from `offset` on, in little-endian order.
    @inline(__always)
    func store(_ number: some FixedWidthInteger & BitwiseCopyable, at offset: Int) {
        unsafe storeBytes(of: number.littleEndian, toByteOffset: offset, as: type(of: number))
    }
}
