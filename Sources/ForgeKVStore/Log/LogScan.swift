import ForgeFileSystem
import SystemPackage

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
        /// Where the intact records are; their changes are read again when they are applied.
        var records: [LogReader.Record] = []
        /// The state after the last of the records.
        var state = Outcome()
    }

    private var reader: LogReader
    private let checksum: CRC32C
    private var loader = RecordLoader()
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
                try accept(record, state: &state, &table)
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
        outcome.discardedRecordCount = pending.reduce(0) { $0 + $1.records.count }
        outcome.isTorn = !pending.isEmpty
        outcome.isSearchIncomplete = outcome.isTorn && budget <= 0
        return outcome
    }

    private mutating func accept(
        _ record: LogReader.Record, state: inout Outcome, _ table: inout TableWriter
    ) throws(FileSystemError) {
        if let last = pending.last, last.lastMissing == nil {
            // Possibly none is missing: garbage between two consecutive records.
            pending[pending.count - 1].lastMissing = record.firstSequence - 1
        } else if record.firstSequence != state.sequence + 1, !record.content.isRetained {
            // Intact, but out of sequence: records are missing although no byte is damaged.
            pending.append(Segment(damage: record.offset..<record.offset, lastMissing: record.firstSequence - 1))
        }
        state.advance(over: record.frame, isFlushed: record.content.code == .flushed, end: record.end)
        guard !pending.isEmpty else {
            try apply(record, &table)
            outcome = state
            return
        }
        pending[pending.count - 1].records.append(record)
        pending[pending.count - 1].state = state
        try applySegments(flushedUpTo: state.flushedSequence, &table)
        state.damage = outcome.damage
    }

    /// Applies the segments whose missing records had been flushed.
    private mutating func applySegments(
        flushedUpTo flushed: UInt64, _ table: inout TableWriter
    ) throws(FileSystemError) {
        while let first = pending.first, let lastMissing = first.lastMissing,
            lastMissing <= max(flushed, outcome.sequence)
        {
            let damage = outcome.damage + [first.damage]
            for record in first.records {
                // It may have left the window of the reader, and what is read again may be something else.
                guard try reader.record(at: record.offset, after: record.firstSequence - 1, checksum) == record else {
                    throw FileSystemError(.read, .ioError, path: .logName)
                }
                try apply(record, &table)
            }
            outcome = first.state
            outcome.damage = damage
            pending.removeFirst()
        }
    }

    /// Applies a record that was just read.
    private mutating func apply(_ record: LogReader.Record, _ table: inout TableWriter) throws(FileSystemError) {
        if record.content.code == .removeAll { table.removeAll() }
        _ = try reader.withBytes(at: record.offset, count: record.size) { bytes in
            loader.load(bytes, 0..<record.size, first: record.firstSequence, into: &table)
        }
    }

    /// The record at `offset`; nil if it is not intact or cannot follow `state`.
    private mutating func record(at offset: Int64, after state: Outcome) throws(FileSystemError) -> LogReader.Record? {
        if let record = try reader.record(at: offset, after: state.sequence, checksum) { return record }
        if let frame = try frame(at: offset, after: state) {
            budget -= Int64(LogRecord.frameSize + frame.payloadSize)
        }
        return nil
    }

    private mutating func frame(at offset: Int64, after state: Outcome) throws(FileSystemError) -> LogRecord.Frame? {
        try reader.frame(at: offset, after: state.sequence)
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

    /// Whether a record may begin here, according to its first bytes.
    private mutating func isPlausible(
        at offset: Int64, after state: Outcome, horizon: UInt64
    ) throws(FileSystemError) -> Bool {
        guard let frame = try frame(at: offset, after: state) else { return false }
        return try reader.withBytes(at: offset, count: LogRecord.frameSize + LogRecord.payloadPrefixSize) { bytes in
            LogRecord.isPlausible(bytes, frame) && (LogRecord.isRetained(bytes) || frame.sequence <= horizon)
        } ?? false
    }
}

/// The fast path of a scan: loads runs of intact records without looking at each of them twice.
extension LogScan {
    /// Loads records until one is damaged, out of sequence, or of another kind.
    private mutating func loadRun(
        after state: inout Outcome, into table: inout TableWriter
    ) throws(FileSystemError) {
        let shortest = LogRecord.frameSize + LogRecord.payloadPrefixSize
        var length = shortest
        let checksum = checksum
        while true {
            let start = state.end
            let available = try reader.withBytes(at: start, atLeast: length) { bytes in
                loader.loadRun(of: bytes, checksum, after: &state, into: &table)
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
}

/// Loads the changes of records into a table, a few at a time, so that their slots are fetched from memory while the
/// checksums of others are computed.
private struct RecordLoader {
    private var changes: [TableWriter.LoadedChange] = []

    private static let chunkCount = 32

    init() {
        changes.reserveCapacity(Self.chunkCount)
    }

    /// Loads the records at the beginning of `bytes`, until one is damaged, incomplete, out of sequence, or removes
    /// everything.
    mutating func loadRun(
        of bytes: Span<UInt8>, _ seed: CRC32C, after state: inout LogScan.Outcome, into table: inout TableWriter
    ) {
        var offset = 0
        while let size = loadNext(of: bytes, at: offset, seed, after: &state, into: &table) { offset &+= size }
        flush(bytes, into: &table)
    }

    /// Loads a record, and returns its size.
    @inline(__always)
    private mutating func loadNext(
        of bytes: Span<UInt8>, at offset: Int, _ seed: CRC32C, after state: inout LogScan.Outcome,
        into table: inout TableWriter
    ) -> Int? {
        let rest = bytes.extracting(offset..<bytes.count)
        guard rest.count >= LogRecord.frameSize + LogRecord.payloadPrefixSize,
            let frame = LogRecord.frame(rest, after: state.sequence)
        else { return nil }
        let size = LogRecord.frameSize &+ frame.payloadSize
        guard size <= rest.count else { return nil }
        let record = rest.extracting(0..<size)
        guard let content = LogRecord.forEachChange(in: record), content.code != .removeAll,
            frame.sequence &- content.count == state.sequence || content.isRetained,
            LogRecord.isIntact(record, checksum: seed)
        else { return nil }
        if content.code != .flushed {
            load(
                bytes, offset..<offset &+ size, first: frame.sequence &- (content.count &- 1), flushes: false,
                into: &table)
        }
        state.advance(over: frame, isFlushed: content.code == .flushed, end: state.end &+ Int64(size))
        return size
    }

    /// Loads the changes of names in a valid record.
    mutating func load(_ bytes: Span<UInt8>, _ record: Range<Int>, first: UInt64, into table: inout TableWriter) {
        load(bytes, record, first: first, flushes: true, into: &table)
    }

    @inline(__always)
    private mutating func load(
        _ bytes: Span<UInt8>, _ record: Range<Int>, first: UInt64, flushes: Bool, into table: inout TableWriter
    ) {
        var revision = first
        LogRecord.forEachChange(in: bytes.extracting(record)) { change in
            changes.append(
                table.prefetching(TableWriter.LoadedChange(change, at: record.lowerBound, of: bytes, revision)))
            revision &+= 1
            if changes.count == Self.chunkCount { flush(bytes, into: &table) }
        }
        if flushes { flush(bytes, into: &table) }
    }

    private mutating func flush(_ bytes: Span<UInt8>, into table: inout TableWriter) {
        table.load(changes, of: bytes)
        changes.removeAll(keepingCapacity: true)
    }
}
