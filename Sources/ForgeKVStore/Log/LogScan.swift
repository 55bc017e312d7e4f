import ForgeFileSystem

/// Reads a log from its first record to its end and classifies bad records as damaged or torn.
///
/// Every record states which records had been flushed when it was written. A bad record that a later record marks as
/// flushed is damaged; only it is lost. A bad record that no later one marks as flushed is torn: the log ends before
/// it, whatever follows, because a power cut leaves such a state.
struct LogScan {
    /// The result of a scan.
    struct Outcome {
        /// Damaged ranges followed by intact records; an empty range where records are missing.
        var damage: [Range<Int64>] = []

        /// The end of the last valid record.
        var end = Int64(LogHeader.size)

        /// The last valid sequence number.
        var sequence: UInt64 = 0

        /// The sequence number of the last record known to have reached the device.
        var flushedSequence: UInt64 = 0

        /// Whether the last record is a flush marker.
        var endsFlushed = false

        /// The number of valid records.
        var recordCount = 0

        /// The number of intact records after the end, which are ignored.
        var discardedRecordCount = 0

        /// Whether the search for intact records after damage was abandoned, so that there may be some after the end.
        var isSearchIncomplete = false

        /// Whether there are, or may be, intact records after the end.
        var mayDiscardRecords: Bool { discardedRecordCount > 0 || isSearchIncomplete }

        /// Whether there are non-zero bytes after the end.
        var isTorn = false

        /// Advances over an intact record.
        @inline(__always)
        mutating func advance(over frame: LogRecord.Frame, isFlushed: Bool, end: Int64) {
            sequence = frame.sequence
            self.end = end
            flushedSequence = max(flushedSequence, frame.flushedSequence)
            endsFlushed = isFlushed
            recordCount += 1
        }
    }

    /// A bad range and the intact records after it, which are valid only if a later record states that the missing ones
    /// had been flushed.
    private struct Segment {
        var damage: Range<Int64>
        /// The sequence number of the last missing record; nil until an intact record follows.
        var lastMissing: UInt64?
        var changes: [(change: LogRecord.Change, sequence: UInt64)] = []
        /// The state after the last of the changes.
        var state = Outcome()
    }

    var reader: LogReader
    let checksum: CRC32C
    private var outcome = Outcome()
    private var pending: [Segment] = []

    /// The offset after which the log contains only zeros; nil until it is needed.
    private var contentEnd: Int64?

    /// The number of bytes that may still be checked in vain, which bounds the time for a malicious log.
    private var budget: Int64
    private static let smallestBudget: Int64 = 1 << 28

    /// Creates a scan of a log.
    init(_ descriptor: Descriptor, size: Int64, fileID: LogFileID, on fileSystem: any POSIXFileSystem) {
        reader = LogReader(descriptor, size: size, on: fileSystem)
        checksum = fileID.checksum
        let (quadruple, overflow) = size.multipliedReportingOverflow(by: 4)
        budget = overflow ? .max : max(quadruple, Self.smallestBudget)
    }

    /// Applies every valid change to a table, in order.
    mutating func run(into table: inout TableWriter) throws(FileSystemError) -> Outcome {
        var offset = outcome.end
        var state = outcome
        while offset < reader.size {
            if pending.isEmpty {
                try loadRun(after: &state, into: &table)
                outcome = state
                offset = state.end
                guard offset < reader.size else { break }
            }
            if let record = try record(at: offset, after: state) {
                accept(record, at: offset, state: &state, &table)
                offset = state.end
            } else {
                // Determined once, because it is the same for every bad record.
                if contentEnd == nil { contentEnd = try reader.contentEnd(from: offset) }
                guard let contentEnd, contentEnd > offset else { break }
                let next = try nextIntactRecord(from: offset, before: contentEnd, after: state)
                pending.append(Segment(damage: offset..<(next ?? reader.size)))
                offset = next ?? reader.size
            }
        }
        outcome.discardedRecordCount = pending.reduce(0) { $0 + $1.changes.count }
        outcome.isTorn = !pending.isEmpty
        outcome.isSearchIncomplete = outcome.isTorn && budget <= 0
        return outcome
    }

    private struct Record {
        var frame: LogRecord.Frame
        var change: LogRecord.Change
        var isRetained: Bool

        var firstSequence: UInt64 { frame.sequence - (change.count - 1) }
    }

    private mutating func accept(
        _ record: Record, at offset: Int64, state: inout Outcome, _ table: inout TableWriter
    ) {
        if let last = pending.last, last.lastMissing == nil {
            // Possibly none is missing: garbage between two consecutive records.
            pending[pending.count - 1].lastMissing = record.firstSequence - 1
        } else if record.firstSequence != state.sequence + 1, !record.isRetained {
            // Intact, but out of sequence: records are missing although no byte is damaged.
            pending.append(Segment(damage: offset..<offset, lastMissing: record.firstSequence - 1))
        }
        let isFlushed = if case .flushed = record.change { true } else { false }
        let end = offset + Int64(LogRecord.frameSize + record.frame.payloadSize)
        state.advance(over: record.frame, isFlushed: isFlushed, end: end)
        guard !pending.isEmpty else {
            table.apply(record.change, record.frame.sequence)
            outcome = state
            return
        }
        pending[pending.count - 1].changes.append((record.change, record.frame.sequence))
        pending[pending.count - 1].state = state
        applySegments(flushedUpTo: state.flushedSequence, &table)
        state.damage = outcome.damage
    }

    /// Applies the segments whose missing records had been flushed.
    private mutating func applySegments(flushedUpTo flushed: UInt64, _ table: inout TableWriter) {
        while let first = pending.first, let lastMissing = first.lastMissing,
            lastMissing <= max(flushed, outcome.sequence)
        {
            let damage = outcome.damage + [first.damage]
            for (change, sequence) in first.changes { table.apply(change, sequence) }
            outcome = first.state
            outcome.damage = damage
            pending.removeFirst()
        }
    }

    /// The record at `offset`; nil if it is not intact or cannot follow `state`.
    private mutating func record(at offset: Int64, after state: Outcome) throws(FileSystemError) -> Record? {
        guard let frame = try frame(at: offset, after: state) else { return nil }
        let checksum = checksum
        let size = LogRecord.frameSize + frame.payloadSize
        let record = try reader.withBytes(at: offset, count: size) { bytes -> Record? in
            guard LogRecord.isIntact(bytes, checksum: checksum) else { return nil }
            let payload = UnsafeRawBufferPointer(rebasing: bytes[LogRecord.frameSize...])
            guard let change = LogRecord.change(payload), change.count <= frame.sequence - state.sequence else {
                return nil
            }
            return Record(frame: frame, change: change, isRetained: LogRecord.isRetained(payload))
        }
        guard let record, let record else {
            budget -= Int64(size)
            return nil
        }
        return record
    }

    mutating func frame(at offset: Int64, after state: Outcome) throws(FileSystemError) -> LogRecord.Frame? {
        let frame = try reader.withBytes(at: offset, count: LogRecord.frameSize, LogRecord.frame)
        guard let frame,
            frame.payloadSize >= LogRecord.payloadPrefixSize,
            Int64(frame.payloadSize) <= reader.size - offset - Int64(LogRecord.frameSize),
            frame.sequence > state.sequence, frame.sequence <= LogRecord.maximumSequence,
            // Otherwise the flushed sequence number would be negative.
            frame.unflushedCount < frame.sequence
        else { return nil }
        return frame
    }

    /// The offset of the next intact record after a bad one. The search ends at `contentEnd`; only zeros follow.
    private mutating func nextIntactRecord(
        from offset: Int64, before contentEnd: Int64, after state: Outcome
    ) throws(FileSystemError) -> Int64? {
        // Usually the payload is damaged and the length still leads to the next record.
        if let frame = try frame(at: offset, after: state) {
            let next = offset + Int64(LogRecord.frameSize + frame.payloadSize)
            if try record(at: next, after: state)?.firstSequence == state.sequence + 2 { return next }
        }
        let smallest = Int64(LogRecord.frameSize + LogRecord.payloadPrefixSize)
        let last = min(contentEnd - 1, reader.size - smallest)
        // More records than fit into the file cannot be missing.
        let horizon = state.sequence + 2 + UInt64(clamping: reader.size / smallest)
        var candidate = offset + 1
        while candidate <= last, budget > 0 {
            if try isPlausible(at: candidate, after: state, horizon: horizon),
                try record(at: candidate, after: state) != nil
            {
                return candidate
            }
            candidate += 1
        }
        return nil
    }

    /// Whether a record may begin here, according to its first bytes. Without this test, numbers in a value would often
    /// be mistaken for frames, and each would cost a checksum over its supposed payload.
    private mutating func isPlausible(
        at offset: Int64, after state: Outcome, horizon: UInt64
    ) throws(FileSystemError) -> Bool {
        guard let frame = try frame(at: offset, after: state) else { return false }
        let start = offset + Int64(LogRecord.frameSize)
        return try reader.withBytes(at: start, count: LogRecord.payloadPrefixSize) { prefix in
            LogRecord.isPlausible(prefix, payloadSize: frame.payloadSize)
                && (LogRecord.isRetained(prefix) || frame.sequence <= horizon)
        } ?? false
    }
}

/// The fast path of a scan: loads runs of intact records without allocating an object per record.
extension LogScan {
    /// Loads records until one is damaged, out of sequence, or of another kind.
    mutating func loadRun(after state: inout Outcome, into table: inout TableWriter) throws(FileSystemError) {
        let shortest = LogRecord.frameSize + LogRecord.payloadPrefixSize
        var length = shortest
        let checksum = checksum
        while true {
            let start = state.end
            let available = try reader.withBytes(at: start, atLeast: length) { bytes in
                var rest = bytes
                // 32 records at a time, so that their table slots are prefetched while checksums are computed.
                while Self.loadChunk(&rest, checksum, after: &state, into: &table)
                    || Self.loadBatch(&rest, checksum, after: &state, into: &table)
                {}
                return bytes.count
            }
            guard let available else { return }
            guard state.end > start else {
                // The record may be longer than the buffered bytes.
                guard let frame = try frame(at: start, after: state) else { return }
                length = LogRecord.frameSize + frame.payloadSize
                guard length > available else { return }
                continue
            }
            length = shortest
            // The expected number of names if the rest of the log resembles the part already read, but at most eight
            // times the names found: most of the file may be sparse.
            let expectedCount = Double(table.count) * Double(reader.size) / Double(state.end)
            table.reserve(Int(min(expectedCount, 8 * Double(table.count))))
        }
    }

    private static let chunkCount = 32

    /// Loads a few records; returns whether more may follow.
    private static func loadChunk(
        _ rest: inout UnsafeRawBufferPointer, _ seed: CRC32C, after state: inout Outcome,
        into table: inout TableWriter
    ) -> Bool {
        withUnsafeTemporaryAllocation(of: TableWriter.LoadedRecord.self, capacity: chunkCount) { records in
            var count = 0
            var isPlain = true
            while count < chunkCount, isPlain {
                let record = nextRecord(&rest, seed, after: &state)
                isPlain = record.isPlain
                guard let loaded = record.loaded else { continue }
                table.prefetch(hash: loaded.hash)
                records.initializeElement(at: count, to: loaded)
                count += 1
            }
            table.load(UnsafeBufferPointer(rebasing: records[..<count]))
            return isPlain
        }
    }

    /// Parses the next record. `isPlain`: it is intact and may be loaded by this path. `loaded` is nil for a flush
    /// marker.
    @inline(__always)
    private static func nextRecord(
        _ rest: inout UnsafeRawBufferPointer, _ seed: CRC32C, after state: inout Outcome
    ) -> (isPlain: Bool, loaded: TableWriter.LoadedRecord?) {
        guard let (frame, record) = nextFrame(rest, after: state) else { return (false, nil) }
        let payload = UnsafeRawBufferPointer(rebasing: record[LogRecord.frameSize...])
        guard let change = LogRecord.PlainChange(payload),
            frame.sequence == state.sequence &+ 1 || LogRecord.isRetained(payload),
            LogRecord.isIntact(record, checksum: seed)
        else { return (false, nil) }
        state.advance(over: frame, isFlushed: change.code == .flushed, end: state.end &+ Int64(record.count))
        rest = UnsafeRawBufferPointer(rebasing: rest[record.count...])
        guard change.code != .flushed else { return (true, nil) }
        return (true, TableWriter.LoadedRecord(change, revision: frame.sequence))
    }

    /// Loads the next record if it is an intact batch; returns whether it did.
    private static func loadBatch(
        _ rest: inout UnsafeRawBufferPointer, _ seed: CRC32C, after state: inout Outcome,
        into table: inout TableWriter
    ) -> Bool {
        guard let (frame, record) = nextFrame(rest, after: state),
            record[LogRecord.frameSize...].starts(with: [LogRecord.Code.batch.rawValue, 0, 0, 0]),
            LogRecord.isIntact(record, checksum: seed)
        else { return false }
        let content = UnsafeRawBufferPointer(rebasing: record[(LogRecord.frameSize + LogRecord.payloadPrefixSize)...])
        var changeCount: UInt64 = 0
        // A batch is loaded completely or not at all.
        guard LogRecord.forEachChange(inBatch: content, { _ in changeCount += 1 }),
            changeCount == frame.sequence &- state.sequence
        else { return false }
        withUnsafeTemporaryAllocation(of: TableWriter.LoadedRecord.self, capacity: chunkCount) { records in
            var revision = state.sequence
            var count = 0
            _ = LogRecord.forEachChange(inBatch: content) { change in
                revision &+= 1
                let loaded = TableWriter.LoadedRecord(change, revision: revision)
                table.prefetch(hash: loaded.hash)
                records.initializeElement(at: count, to: loaded)
                count += 1
                guard count == chunkCount else { return }
                table.load(UnsafeBufferPointer(records))
                count = 0
            }
            table.load(UnsafeBufferPointer(rebasing: records[..<count]))
        }
        state.advance(over: frame, isFlushed: false, end: state.end &+ Int64(record.count))
        rest = UnsafeRawBufferPointer(rebasing: rest[record.count...])
        return true
    }

    /// The frame and the bytes of the next record; nil if the frame is not valid or the record incomplete.
    @inline(__always)
    private static func nextFrame(
        _ rest: UnsafeRawBufferPointer, after state: Outcome
    ) -> (frame: LogRecord.Frame, record: UnsafeRawBufferPointer)? {
        guard rest.count >= LogRecord.frameSize + LogRecord.payloadPrefixSize else { return nil }
        let frame = LogRecord.frame(rest)
        let size = LogRecord.frameSize &+ frame.payloadSize
        guard frame.payloadSize >= LogRecord.payloadPrefixSize, size <= rest.count,
            frame.sequence > state.sequence, frame.sequence <= LogRecord.maximumSequence,
            frame.unflushedCount < frame.sequence
        else { return nil }
        return (frame, UnsafeRawBufferPointer(start: rest.baseAddress, count: size))
    }
}

extension LogRecord {
    /// A set, a removal or a flush marker, located in the memory of its record.
    struct PlainChange {
        let code: Code
        let name: UnsafeRawBufferPointer
        let value: UnsafeRawBufferPointer

        /// Nil for unknown codes and flags.
        @inline(__always)
        init?(_ payload: UnsafeRawBufferPointer) {
            guard let code = Code(rawValue: payload[0]),
                payload[1] == 0 || (payload[1] == LogRecord.retainedFlag && code != .remove)
            else { return nil }
            let nameEnd = LogRecord.payloadPrefixSize + Int(payload.integer(at: 2, as: UInt16.self))
            guard nameEnd <= payload.count else { return nil }
            self.init(code, payload[LogRecord.payloadPrefixSize..<nameEnd], payload[nameEnd...])
        }

        /// Nil for other codes, a removal with a value, or an invalid name.
        @inline(__always)
        init?(_ code: Code, _ name: Slice<UnsafeRawBufferPointer>, _ value: Slice<UnsafeRawBufferPointer>) {
            self.code = code
            self.name = UnsafeRawBufferPointer(rebasing: name)
            self.value = UnsafeRawBufferPointer(rebasing: value)
            switch code {
            case .set: break
            case .remove: guard value.isEmpty else { return nil }
            case .flushed: guard name.isEmpty, value.isEmpty else { return nil }
            case .removeAll, .batch: return nil
            }
            guard name.count <= KeyName.maximumLength, self.name.isUTF8 else { return nil }
        }
    }
}

extension UnsafeRawBufferPointer {
    /// Whether the bytes are valid UTF-8.
    @inline(__always)
    fileprivate var isUTF8: Bool {
        var offset = 0
        var bits: UInt64 = 0
        while offset &+ 8 <= count {
            bits |= loadUnaligned(fromByteOffset: offset, as: UInt64.self)
            offset &+= 8
        }
        while offset < count {
            bits |= UInt64(self[offset])
            offset &+= 1
        }
        return bits & 0x8080_8080_8080_8080 == 0 || String(validating: self, as: UTF8.self) != nil
    }
}
