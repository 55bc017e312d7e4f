import ForgeFileSystem

/// A record of a log: a frame of 20 bytes and a payload that describes the change.
enum LogRecord {
    /// The change that a record makes.
    enum Change: Sendable {
        case set(KeyName, [UInt8])
        case remove(KeyName)
        case removeAll

        /// Several sets and removals, each with its own sequence number; the record has the last one.
        case batch([Change])

        /// No change: a marker written after a flush, whose frame states that all earlier records have reached the
        /// device.
        case flushed
    }

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
        record.store(UInt32(record.count - frameSize), at: 0)
        record.store(sequence, at: 4)
        record[frameSize] = code.rawValue
        record[frameSize + 1] = flags
        // Names have at most 1,024 bytes; every set and remove has checked that.
        record.store(UInt16(name.count), at: frameSize + 2)
        let payload = frameSize + payloadPrefixSize
        UnsafeMutableRawBufferPointer(rebasing: record[payload...]).copyMemory(from: name)
        UnsafeMutableRawBufferPointer(rebasing: record[(payload + name.count)...]).copyMemory(from: value)
        addChecksum(record, unflushedCount: unflushedCount, checksum: start)
    }

    /// Completes a record with the number of unflushed records and its checksum.
    static func addChecksum(_ record: UnsafeMutableRawBufferPointer, unflushedCount: UInt32, checksum start: CRC32C) {
        record.store(unflushedCount, at: 12)
        var checksum = start
        checksum.update(UnsafeRawBufferPointer(rebasing: record[..<16]))
        checksum.update(UnsafeRawBufferPointer(rebasing: record[frameSize...]))
        record.store(checksum.value, at: 16)
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
    }

    /// Parses the frame in the first 20 bytes of `buffer`.
    @inline(__always)
    static func frame(_ buffer: UnsafeRawBufferPointer) -> Frame {
        Frame(
            payloadSize: min(Int(clamping: buffer.integer(at: 0, as: UInt32.self)), maximumPayloadSize),
            sequence: buffer.integer(at: 4, as: UInt64.self),
            unflushedCount: buffer.integer(at: 12, as: UInt32.self),
            checksum: buffer.integer(at: 16, as: UInt32.self))
    }

    /// Whether the checksum of a record, over frame and payload, is correct.
    @inline(__always)
    static func isIntact(_ record: UnsafeRawBufferPointer, checksum start: CRC32C) -> Bool {
        var checksum = start
        checksum.update(UnsafeRawBufferPointer(rebasing: record[..<16]))
        checksum.update(UnsafeRawBufferPointer(rebasing: record[frameSize...]))
        return checksum.value == frame(record).checksum
    }

    /// Whether a payload belongs to a record carried over by compaction.
    static func isRetained(_ payload: UnsafeRawBufferPointer) -> Bool {
        payload.count >= payloadPrefixSize && payload[1] == retainedFlag
    }

    /// Whether a payload may begin with these four bytes.
    static func isPlausible(_ prefix: UnsafeRawBufferPointer, payloadSize: Int) -> Bool {
        let nameSize = Int(prefix.integer(at: 2, as: UInt16.self))
        return Code(rawValue: prefix[0]) != nil && prefix[1] <= retainedFlag
            && nameSize <= min(KeyName.maximumLength, payloadSize - payloadPrefixSize)
    }

    /// The change in a payload; nil for unknown codes and flags, and for an invalid payload.
    static func change(_ payload: UnsafeRawBufferPointer) -> Change? {
        guard payload.count >= payloadPrefixSize, let code = Code(rawValue: payload[0]), code.permits(flags: payload[1])
        else { return nil }
        let nameSize = Int(payload.integer(at: 2, as: UInt16.self))
        let rest = UnsafeRawBufferPointer(rebasing: payload[payloadPrefixSize...])
        guard nameSize <= rest.count, nameSize <= KeyName.maximumLength else { return nil }
        switch code {
        case .removeAll: return rest.isEmpty ? .removeAll : nil
        case .flushed: return rest.isEmpty ? .flushed : nil
        case .batch: return nameSize == 0 ? batch(rest) : nil
        case .set, .remove:
            guard let name = String(validating: rest.prefix(nameSize), as: UTF8.self) else { return nil }
            if code == .set { return .set(KeyName(name), Array(rest.dropFirst(nameSize))) }
            return nameSize == rest.count ? .remove(KeyName(name)) : nil
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
        name.withBytes { content.append(contentsOf: $0) }
        content += value
    }

    /// Calls `body` with each change in the content of a batch, in order; returns false if the content is not
    /// completely valid, after calling `body` for the changes before the first invalid one.
    @inline(__always)
    static func forEachChange(inBatch content: UnsafeRawBufferPointer, _ body: (PlainChange) -> Void) -> Bool {
        var rest = content
        while !rest.isEmpty {
            guard rest.count >= batchPrefixSize, let code = Code(rawValue: rest[0]), rest[1] == 0 else { return false }
            let nameEnd = batchPrefixSize + Int(rest.integer(at: 2, as: UInt16.self))
            let valueSize = Int(clamping: rest.integer(at: 4, as: UInt32.self))
            guard nameEnd <= rest.count, valueSize <= rest.count - nameEnd else { return false }
            let end = nameEnd + valueSize
            guard let change = PlainChange(code, rest[batchPrefixSize..<nameEnd], rest[nameEnd..<end]) else {
                return false
            }
            switch code {
            case .set, .remove: body(change)
            case .removeAll, .flushed, .batch: return false
            }
            rest = UnsafeRawBufferPointer(rebasing: rest[end...])
        }
        return !content.isEmpty
    }

    /// The changes in the content of a batch; nil if the content is not completely valid.
    static func batch(_ content: UnsafeRawBufferPointer) -> Change? {
        var changes: [Change] = []
        let isBatch = forEachChange(inBatch: content) { change in
            let name = KeyName(String(decoding: change.name, as: UTF8.self))
            changes.append(change.code == .set ? .set(name, Array(change.value)) : .remove(name))
        }
        return isBatch ? .batch(changes) : nil
    }
}

extension LogRecord.Change {
    /// The number of sequence numbers that the record takes.
    var count: UInt64 {
        guard case .batch(let changes) = self else { return 1 }
        return UInt64(changes.count)
    }
}
