import ForgeFileSystem

/// What applying the changes of other processes has left to be done when no lock is held.
struct RemoteChanges: Sendable {
    var issues: [KVStoreIssue] = []

    /// With a value may go code of its type.
    private var garbage: [Garbage] = []

    private final class Garbage: Sendable {
        private let content: DeferredReclamation.Garbage

        init(_ content: consuming DeferredReclamation.Garbage) {
            self.content = content
        }
    }

    /// Does to a table what a record of another process says, and reports it.
    mutating func apply(
        _ change: LogRecord.Change, _ sequence: UInt64, to table: inout TableWriter, reportingTo changes: ChangeHub
    ) {
        var reported: [ChangeHub.Change] = []
        let isWatched = changes.hasSubscribers
        func apply(_ change: LogRecord.Change, _ sequence: UInt64, to table: inout TableWriter) {
            switch change {
            case .set(let name, let bytes):
                table.store(EncodedCell(bytes, revision: sequence), name)
                if isWatched { reported.append(ChangeHub.Change(name, bytes, sequence)) }
            case .remove(let name):
                table.remove(name)
                if isWatched { reported.append(ChangeHub.Change(name, nil, sequence)) }
            case .removeAll:
                table.removeAll()
                changes.appendAll { _ in nil }
            case .batch(let parts):
                let first = sequence - UInt64(parts.count - 1)
                for (index, part) in parts.enumerated() { apply(part, first + UInt64(index), to: &table) }
            case .flushed: break
            }
        }
        apply(change, sequence, to: &table)
        changes.append(reported)
    }

    /// Makes a table equal to what was read from a log that was opened anew, and reports the differences; what is the
    /// same stays untouched, so that no reader sees anything missing meanwhile.
    mutating func apply(
        _ contents: [(name: KeyName, cell: ValueCell)], to table: inout TableWriter, reportingTo changes: ChangeHub
    ) {
        var reported: [ChangeHub.Change] = []
        let isWatched = changes.hasSubscribers
        var kept: Set<KeyName> = []
        kept.reserveCapacity(contents.count)
        for (name, cell) in contents {
            kept.insert(name)
            guard table.revision(of: name) != cell.revision else { continue }
            table.store(cell, name)
            if isWatched { reported.append(ChangeHub.Change(name, cell.bytes, cell.revision)) }
        }
        for name in table.names.lazy.map(KeyName.init) where !kept.contains(name) {
            table.remove(name)
            if isWatched { reported.append(ChangeHub.Change(name, nil, 0)) }
        }
        changes.append(reported)
    }

    /// Takes over what was taken out of a table.
    mutating func collect(from table: inout TableWriter) {
        if let collected = table.collectGarbage() { garbage.append(Garbage(collected)) }
    }
}

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
