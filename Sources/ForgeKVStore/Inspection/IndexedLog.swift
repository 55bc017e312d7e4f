import ForgeFileSystem

/// One log: its records and the names in them.
struct IndexedLog: Sendable {
    let file: LogFile
    let inode: UInt64
    private(set) var names = IndexedNames()

    /// The offsets and codes of all records.
    private(set) var offsets: [Int64] = []
    private(set) var codes: [UInt8] = []

    /// Damaged ranges followed by intact records; an empty range where records are missing.
    private(set) var damage: [Range<Int64>] = []

    /// Bytes after the last record that are neither a record nor zero.
    private(set) var tail: Range<Int64>?

    private(set) var end = Int64(LogHeader.size)
    private(set) var sequence: UInt64 = 0
    private(set) var sizeInBytes: Int64 = 0
    let isHeaderDamaged: Bool

    /// Set while the last bytes are not an intact record.
    private var pause: ReadingPause?

    /// The header as it was read.
    private var beginning: [UInt8] = []

    /// The frame of the last record. Another one is there after a store has removed all records in place, or another
    /// program has copied another log over this one, such as an earlier state of it.
    private var lastFrame: LogRecord.Frame?

    enum Loading {
        case log(IndexedLog)
        case unknownVersion(UInt32)
        case damaged
    }

    private init(_ file: LogFile, inode: UInt64, isHeaderDamaged: Bool) {
        (self.file, self.inode, self.isHeaderDamaged) = (file, inode, isHeaderDamaged)
    }

    /// Reads an open file, of which the log keeps a copy, and closes it.
    static func load(
        _ descriptor: Descriptor, _ status: FileStatus, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> Loading {
        defer { fileSystem.discard(descriptor) }
        let reading = LogHeader.read(try fileSystem.readBytes(of: descriptor, at: 0, count: LogHeader.size))
        var candidates: [LogHeader] = []
        switch reading {
        case .valid(let header): candidates = [header]
        case .unknownVersion(let version): return .unknownVersion(version)
        case .damaged(let identifiers): candidates = identifiers.map { LogHeader(fileID: $0, generation: 0) }
        }
        var isValid = false
        if case .valid = reading { isValid = true }
        var result: IndexedLog?
        for header in candidates where result == nil || result?.offsets.isEmpty == true {
            var log = IndexedLog(
                LogFile(try fileSystem.duplicate(descriptor), header: header, on: fileSystem), inode: status.inode,
                isHeaderDamaged: !isValid)
            try log.loadAll(size: status.sizeInBytes)
            result = log
        }
        guard let result, isValid || !result.offsets.isEmpty else { return .damaged }
        return .log(result)
    }

    private var fileSystem: any POSIXFileSystem { file.fileSystem }

    private mutating func loadAll(size: Int64) throws(FileSystemError) {
        sizeInBytes = size
        var reader = LogReader(file.descriptor, size: size, on: fileSystem)
        while let record = try nextRecord(&reader, isStrict: true) { try apply(record, &reader) { _ in } }
        let contentEnd = try reader.contentEnd(from: end)
        if contentEnd > end { try loadDamaged(&reader, contentEnd: contentEnd) }
        beginning = try readBeginning()
    }

    /// Reads a log with bad records again, leaving out what an opening of the store would leave out.
    private mutating func loadDamaged(_ reader: inout LogReader, contentEnd: Int64) throws(FileSystemError) {
        var table = TableWriter(ValueTable())
        var scan = LogScan(file.descriptor, size: sizeInBytes, fileID: file.header.fileID, on: fileSystem)
        let outcome = try scan.run(into: &table)
        damage = outcome.damage
        var rest = damage[...]
        while end < outcome.end {
            if let range = rest.first, range.lowerBound <= end {
                rest.removeFirst()
                end = max(end, range.upperBound)
                if !range.isEmpty { continue }
            }
            guard let record = try nextRecord(&reader, isStrict: false) else { break }
            try apply(record, &reader) { _ in }
        }
        tail = contentEnd > end ? end..<contentEnd : nil
    }

    private func readBeginning() throws(FileSystemError) -> [UInt8] {
        try fileSystem.readBytes(of: file.descriptor, at: 0, count: LogHeader.size)
    }

    /// Whether the file that has the log's name is this one, and still contains all that was read.
    func isSame(_ status: FileStatus) throws(FileSystemError) -> Bool {
        guard status.inode == inode, status.sizeInBytes >= end, try readBeginning() == beginning else { return false }
        // Without a record there is nothing that could have changed but the zeros after the header.
        guard let offset = offsets.last else { return true }
        let frame = try readFrame(at: offset)
        return frame.count == LogRecord.frameSize && LogRecord.frame(frame.span) == lastFrame
    }

    /// Reads the records that were appended.
    mutating func follow(_ status: FileStatus) throws(FileSystemError) -> [KVLogIndex.Change] {
        sizeInBytes = status.sizeInBytes
        // The next frame decides; a reader would read ahead a megabyte of reserved zeros every time.
        let next = try readFrame(at: end)
        guard next.contains(where: { $0 != 0 }) else {
            (tail, pause) = (nil, nil)
            return []
        }
        if pause?.isOver(.init(status, beginning: next)) == false { return [] }
        let start = end
        var changes: [KVLogIndex.Change] = []
        var reader = LogReader(file.descriptor, size: sizeInBytes, on: fileSystem)
        // A record that is being written is not intact yet; a later call reads it.
        while let record = try nextRecord(&reader, isStrict: true) {
            try apply(record, &reader) { changes.append($0) }
            tail = nil
        }
        if end > start { pause = nil }
        let rest = end > start ? try readFrame(at: end) : next
        if rest.contains(where: { $0 != 0 }) {
            let size = try reader.sizeOfRecord(at: end, after: sequence)
            pause = ReadingPause(.init(status, beginning: rest), sizeInBytes: size, after: pause)
        }
        return changes
    }

    /// The bytes of the frame at an offset; fewer at the end of the file.
    private func readFrame(at offset: Int64) throws(FileSystemError) -> [UInt8] {
        try fileSystem.readBytes(of: file.descriptor, at: offset, count: LogRecord.frameSize)
    }

    /// The record at the end of those that were read. If `isStrict`, no sequence number may be missing, except before a
    /// record that compaction has kept.
    private func nextRecord(_ reader: inout LogReader, isStrict: Bool) throws(FileSystemError) -> LogReader.Record? {
        guard let record = try reader.record(at: end, after: sequence, file.header.fileID.checksum),
            !isStrict || record.content.isRetained || record.firstSequence == sequence + 1
        else { return nil }
        return record
    }

    private mutating func apply(
        _ record: LogReader.Record, _ reader: inout LogReader, _ report: (KVLogIndex.Change) -> Void
    ) throws(FileSystemError) {
        offsets.append(end)
        codes.append(record.content.code.rawValue)
        var revision = record.firstSequence
        if record.content.code == .removeAll {
            names = IndexedNames()
            report(KVLogIndex.Change(.removeAll, nil, revision))
        }
        _ = try reader.withBytes(at: end, count: record.size) { bytes in
            LogRecord.forEachChange(in: bytes) { change in
                let name = KeyName(bytes.extracting(change.name))
                if let value = change.value {
                    var checksum = CRC32C()
                    checksum.update(bytes, value)
                    _ = names.set(
                        name, revision: revision, valueOffset: end + Int64(value.lowerBound), valueSize: value.count,
                        valueChecksum: checksum.value)
                    report(KVLogIndex.Change(.set, name.string, revision))
                } else {
                    _ = names.remove(name)
                    report(KVLogIndex.Change(.remove, name.string, revision))
                }
                revision += 1
            }
        }
        lastFrame = record.frame
        sequence = record.frame.sequence
        end = record.end
    }

    /// The differences to the log that was here before, of the same store or of another one: names with another value
    /// or revision, and names without a value.
    func changes(since old: IndexedLog) -> [KVLogIndex.Change] {
        var changes: [KVLogIndex.Change] = []
        for (number, slot) in old.names.slots.enumerated() where slot.isPresent {
            let name = old.names.name(Int32(number))
            if names.slot(of: KeyName(name)) == nil { changes.append(KVLogIndex.Change(.remove, name, sequence)) }
        }
        for (number, slot) in names.slots.enumerated() where slot.isPresent {
            let name = names.name(Int32(number))
            if old.names.slot(of: KeyName(name))?.hasSameValue(as: slot) == true { continue }
            changes.append(KVLogIndex.Change(.set, name, slot.revision))
        }
        return changes
    }

    /// The order of the names; see ``IndexedNames/sorted()``.
    mutating func sortedNames() -> [Int32] { names.sorted() }
}
