import ForgeFileSystem

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
