import ForgeFileSystem

/// Reads what another process has appended to a log that is open and was read up to some point.
///
/// It is strict: unless there is one intact record after the other, up to exactly the expected end, the log has to be
/// opened anew.
struct LogFollower {
    /// The appended records.
    struct Found: Sendable {
        var records: [(change: LogRecord.Change, sequence: UInt64)] = []
        var sequence: UInt64
        var flushedSequence: UInt64
        var endsFlushed: Bool
    }

    /// The maximum plausible size; the end of another log may look like any number.
    static let limit: Int64 = 1 << 40

    private let start: Int64
    private let end: Int64
    private var reader: LogReader
    private let checksum: CRC32C
    private var found: Found

    /// The records between the known end of `log` and a later end.
    init(_ log: borrowing AppendLog, to end: Int64) {
        start = log.end
        self.end = end
        reader = LogReader(log.file.descriptor, size: end, on: log.file.fileSystem)
        checksum = log.file.header.fileID.checksum
        found = Found(
            sequence: log.sequence, flushedSequence: log.flushedSequence, endsFlushed: log.endsFlushed)
    }

    /// The records; nil if there is anything else.
    mutating func run() throws(FileSystemError) -> Found? {
        var offset = start
        while offset < end {
            guard let size = try read(at: offset) else { return nil }
            offset += Int64(size)
        }
        return found
    }

    /// Reads the record at `offset` and returns how long it is; nil if there is none that is the next.
    private mutating func read(at offset: Int64) throws(FileSystemError) -> Int? {
        guard let frame = try reader.withBytes(at: offset, count: LogRecord.frameSize, LogRecord.frame),
            frame.payloadSize >= LogRecord.payloadPrefixSize, frame.sequence > found.sequence,
            frame.sequence <= LogRecord.maximumSequence, frame.unflushedCount < frame.sequence
        else { return nil }
        let size = LogRecord.frameSize + frame.payloadSize
        let checksum = checksum
        let change = try reader.withBytes(at: offset, count: size) { bytes -> LogRecord.Change? in
            guard LogRecord.isIntact(bytes, checksum: checksum) else { return nil }
            return LogRecord.change(UnsafeRawBufferPointer(rebasing: bytes[LogRecord.frameSize...]))
        }
        guard let change, let change, change.count == frame.sequence - found.sequence else { return nil }
        found.records.append((change, frame.sequence))
        found.sequence = frame.sequence
        found.flushedSequence = max(found.flushedSequence, frame.flushedSequence)
        if case .flushed = change { found.endsFlushed = true } else { found.endsFlushed = false }
        return size
    }
}
