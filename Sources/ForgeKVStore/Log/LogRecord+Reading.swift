import ForgeFileSystem

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
    /// What a record with a valid payload contains.
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
