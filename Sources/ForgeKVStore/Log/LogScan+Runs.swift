import ForgeFileSystem

/// The fast path of a scan: runs of intact records, one behind the other, are loaded without an object for each of them.
extension LogScan {
    /// Loads records up to the first that is not an intact set, removal or flush marker, and the next in order.
    mutating func loadRun(after state: inout Outcome, into table: inout TableWriter) throws(FileSystemError) {
        let shortest = LogRecord.frameSize + LogRecord.payloadPrefixSize
        let checksum = checksum
        while true {
            let start = state.end
            let read: Void? = try window.withBytes(at: start, atLeast: shortest) { bytes in
                var rest = bytes
                // A part at a time, whose slots are fetched while the checksums are computed.
                while Self.loadPart(&rest, checksum, after: &state, into: &table) {}
            }
            guard read != nil, state.end > start else { return }
            // As many names as there would be if the rest of the log were like what was read, but at most eight times what was
            // found: most of the file may be a hole.
            let expectedCount = Double(table.count) * Double(window.size) / Double(state.end)
            table.reserve(Int(min(expectedCount, 8 * Double(table.count))))
        }
    }

    private static let partCount = 32

    /// Loads a few records; returns whether more may follow.
    private static func loadPart(
        _ rest: inout UnsafeRawBufferPointer, _ start: CRC32C, after state: inout Outcome,
        into table: inout TableWriter
    ) -> Bool {
        withUnsafeTemporaryAllocation(of: TableWriter.LoadedRecord.self, capacity: partCount) { records in
            var count = 0
            var isPlain = true
            while count < partCount, isPlain {
                let record = nextRecord(&rest, start, after: &state)
                isPlain = record.isPlain
                guard let loaded = record.loaded else { continue }
                table.prefetch(hash: loaded.hash)
                records.initializeElement(at: count, to: loaded)
                count += 1
            }
            table.load(records[..<count])
            return isPlain
        }
    }

    /// Takes the next record; it is plain if it is intact and simple enough, and nothing is to be loaded of a flush marker.
    @inline(__always)
    private static func nextRecord(
        _ rest: inout UnsafeRawBufferPointer, _ start: CRC32C, after state: inout Outcome
    ) -> (isPlain: Bool, loaded: TableWriter.LoadedRecord?) {
        guard rest.count >= LogRecord.frameSize + LogRecord.payloadPrefixSize else { return (false, nil) }
        let frame = LogRecord.frame(rest)
        let size = LogRecord.frameSize &+ frame.payloadSize
        guard frame.payloadSize >= LogRecord.payloadPrefixSize, size <= rest.count,
            frame.sequence > state.sequence, frame.sequence <= LogRecord.maximumSequence,
            frame.unflushedCount < frame.sequence
        else { return (false, nil) }
        let record = UnsafeRawBufferPointer(start: rest.baseAddress, count: size)
        let payload = UnsafeRawBufferPointer(rebasing: record[LogRecord.frameSize...])
        guard let change = LogRecord.PlainChange(payload),
            frame.sequence == state.sequence &+ 1 || LogRecord.isKept(payload),
            LogRecord.isIntact(record, checksum: start)
        else { return (false, nil) }
        state.advance(over: frame, isFlushed: change.code == .flushed, end: state.end &+ Int64(size))
        rest = UnsafeRawBufferPointer(rebasing: rest[size...])
        guard change.code != .flushed else { return (true, nil) }
        return (
            true,
            TableWriter.LoadedRecord(
                name: change.name, value: change.code == .set ? change.value : nil, revision: frame.sequence,
                hash: KeyHash.hash(change.name))
        )
    }
}

extension LogRecord {
    /// A set, a removal or a flush marker, in the memory of its record.
    struct PlainChange {
        let code: Code
        let name: UnsafeRawBufferPointer
        let value: UnsafeRawBufferPointer

        /// Nil for any other payload, and for one that says nothing that this version understands.
        @inline(__always)
        init?(_ payload: UnsafeRawBufferPointer) {
            guard let code = Code(rawValue: payload[0]), payload[1] == 0 || payload[1] == LogRecord.keptFlag else {
                return nil
            }
            let nameEnd = LogRecord.payloadPrefixSize + Int(payload.integer(at: 2, as: UInt16.self))
            guard nameEnd <= min(payload.count, LogRecord.payloadPrefixSize + KeyName.maximumLength) else { return nil }
            name = UnsafeRawBufferPointer(rebasing: payload[LogRecord.payloadPrefixSize..<nameEnd])
            value = UnsafeRawBufferPointer(rebasing: payload[nameEnd...])
            self.code = code
            switch code {
            case .set: guard name.isUTF8 else { return nil }
            case .remove: guard payload[1] == 0, value.isEmpty, name.isUTF8 else { return nil }
            case .flushed: guard payload.count == LogRecord.payloadPrefixSize else { return nil }
            case .removeAll, .batch: return nil
            }
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
