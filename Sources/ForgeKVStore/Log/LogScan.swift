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
