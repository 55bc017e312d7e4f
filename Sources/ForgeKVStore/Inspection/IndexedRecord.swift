import ForgeFileSystem

/// A record of a log without its values: only their places.
struct IndexedRecord {
    struct Change {
        var name: KeyName
        /// The offset of the value in the log.
        var offset: Int64
        /// Nil for a removal.
        var valueSize: Int?
    }

    var frame: LogRecord.Frame
    var code: LogRecord.Code
    var changes: [Change] = []

    /// The record at `offset`; nil if it is not intact or cannot follow the record `sequence`.
    ///
    /// - Parameters:
    ///   - offset: The offset of the frame.
    ///   - sequence: The sequence number of the record before.
    ///   - fileID: The identifier of the log.
    ///   - reader: Reads the log.
    ///   - isStrict: Whether no sequence number may be missing, except before a record that compaction has kept.
    /// - Throws: The error of reading the log.
    init?(
        at offset: Int64, after sequence: UInt64, _ fileID: LogFileID, _ reader: inout LogReader, isStrict: Bool
    ) throws(FileSystemError) {
        guard let frame = try reader.withBytes(at: offset, count: LogRecord.frameSize, LogRecord.frame),
            frame.sequence > sequence, frame.sequence <= LogRecord.maximumSequence,
            frame.unflushedCount < frame.sequence,
            let longSize = try Self.size(at: offset, &reader)
        else { return nil }
        let size = Int(longSize)
        // Verified in steps first: a forged frame could claim a record as large as the file.
        if size > LogReader.step, try !reader.isIntact(at: offset, size: size, fileID.checksum) { return nil }
        let record = try reader.withBytes(at: offset, count: size) { bytes -> IndexedRecord? in
            IndexedRecord(bytes, frame, at: offset, fileID.checksum)
        }
        guard let record, let record else { return nil }
        let count = UInt64(max(record.changes.count, 1))
        guard count <= frame.sequence - sequence else { return nil }
        if isStrict, !record.isRetained, count != frame.sequence - sequence { return nil }
        self = record
    }

    /// The size of the record that may begin at an offset: one that fits into the file, and whose first bytes are
    /// possible; nil if none does.
    static func size(at offset: Int64, _ reader: inout LogReader) throws(FileSystemError) -> Int64? {
        let prefixSize = LogRecord.frameSize + LogRecord.payloadPrefixSize
        let size = try reader.withBytes(at: offset, count: prefixSize) { bytes -> Int64? in
            let frame = LogRecord.frame(bytes)
            let prefix = UnsafeRawBufferPointer(rebasing: bytes[LogRecord.frameSize...])
            guard frame.payloadSize >= LogRecord.payloadPrefixSize,
                LogRecord.isPlausible(prefix, payloadSize: frame.payloadSize)
            else { return nil }
            return Int64(LogRecord.frameSize) + Int64(frame.payloadSize)
        }
        guard let size, let size, size <= reader.size - offset else { return nil }
        return size
    }

    private var isRetained = false

    private init?(_ bytes: UnsafeRawBufferPointer, _ frame: LogRecord.Frame, at offset: Int64, _ checksum: CRC32C) {
        guard LogRecord.isIntact(bytes, checksum: checksum) else { return nil }
        let payload = UnsafeRawBufferPointer(rebasing: bytes[LogRecord.frameSize...])
        guard let code = LogRecord.Code(rawValue: payload[0]), code.permits(flags: payload[1]) else { return nil }
        self.frame = frame
        self.code = code
        isRetained = LogRecord.isRetained(payload)
        let add = { (change: LogRecord.PlainChange, changes: inout [Change]) in
            let name = KeyName(String(decoding: change.name, as: UTF8.self))
            let place = change.value.baseAddress.flatMap { value in bytes.baseAddress.map { value - $0 } } ?? 0
            changes.append(
                Change(
                    name: name, offset: offset + Int64(place),
                    valueSize: change.code == .set ? change.value.count : nil))
        }
        switch code {
        case .set, .remove:
            guard let change = LogRecord.PlainChange(payload) else { return nil }
            add(change, &changes)
        case .batch:
            guard payload.integer(at: 2, as: UInt16.self) == 0 else { return nil }
            var found: [Change] = []
            let content = UnsafeRawBufferPointer(rebasing: payload[LogRecord.payloadPrefixSize...])
            guard LogRecord.forEachChange(inBatch: content, { add($0, &found) }) else { return nil }
            changes = found
        case .removeAll, .flushed:
            guard payload.count == LogRecord.payloadPrefixSize, payload.integer(at: 2, as: UInt16.self) == 0 else {
                return nil
            }
        }
    }
}
