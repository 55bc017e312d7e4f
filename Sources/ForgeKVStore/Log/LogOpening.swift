import ForgeFileSystem
import SystemPackage

/// Opens the log of a store: reads it, sets aside what is damaged, and leaves a log that can be appended to.
struct LogOpening: ~Copyable {
    private let place: StorePlace
    private let maximumPayloadSize: Int
    private let space: LogSpace.Options
    private let usesIndex: Bool

    /// What the log holds.
    private(set) var table: TableWriter

    /// What was found that the owner should hear of.
    private(set) var issues: [KVStoreIssue] = []

    init(_ place: StorePlace, table: ValueTable, options: FileKVStore.Options) {
        self.place = place
        self.table = TableWriter(table)
        space = options.space
        usesIndex = options.usesIndex
        maximumPayloadSize = options.readablePayloadSize
    }

    private var fileSystem: any POSIXFileSystem { place.fileSystem }

    /// Opens the log; what it holds is in ``table`` then.
    mutating func run() throws(KVStoreError) -> OpenedLog {
        let log: Descriptor
        do throws(FileSystemError) {
            log = try fileSystem.open(
                .logName, at: place.directory, .readWrite, options: [.noFollow, .nonBlocking], permissions: [])
        } catch  where error.errno == .noSuchFileOrDirectory {
            return try create()
        } catch {
            throw failure(error)
        }
        do throws(KVStoreError) {
            return try read(log)
        } catch {
            // Why it could not be opened is what the caller needs to hear.
            do { try fileSystem.close(log) } catch _ {}
            throw error
        }
    }

    private func failure(_ error: FileSystemError) -> KVStoreError { KVStoreError(error, .open, store: place.name) }

    private func create() throws(KVStoreError) -> OpenedLog {
        do throws(FileSystemError) {
            return OpenedLog(log: try write(generation: 1, after: 0))
        } catch {
            throw failure(error)
        }
    }

    /// Writes a log of what the table holds in place of the one there, durably.
    private func write(generation: UInt64, after sequence: UInt64) throws(FileSystemError) -> AppendLog {
        let header = LogHeader(fileID: LogFileID(random: fileSystem.randomBits), generation: generation)
        var replacement = try LogReplacement(header, at: place.directory, on: fileSystem)
        var log: AppendLog
        do throws(FileSystemError) {
            try replacement.append(kept: table.contents, upTo: sequence)
            if sequence > 0 { try replacement.appendFlushed(sequence + 1) }
            try replacement.synchronize()
            log = try replacement.moveIntoPlace(space)
        } catch {
            replacement.discard()
            throw error
        }
        let flush = log.startFlush(directory: place.directory)
        try flush.run()
        log.didFlush(flush)
        return log
    }

    private mutating func read(_ log: Descriptor) throws(KVStoreError) -> OpenedLog {
        let size: Int64
        let reading: LogHeader.Reading
        do throws(FileSystemError) {
            let status = try fileSystem.status(of: .descriptor(log))
            guard status.type == .regular else { throw FileSystemError(.open, .notSupported, path: .logName) }
            // Through another name somebody else could change it.
            guard status.linkCount == 1 else { throw FileSystemError(.open, .tooManyLinks, path: .logName) }
            size = status.sizeInBytes
            var window = LogReader(log, size: min(size, Int64(LogHeader.size)), on: fileSystem)
            reading = LogHeader.read(try window.withBytes(at: 0, count: Int(window.size)) { Array($0) } ?? [])
        } catch {
            throw failure(error)
        }
        switch reading {
        case .valid(let header):
            if let opened = try resume(log, header, size: size) { return opened }
            var opened = try recover(log, header, try scan(log, size, header.fileID), size: size)
            dropIndex(of: header, unlessWithin: &opened)
            return opened
        case .unknownVersion(let version):
            throw KVStoreError(.unknownFormat(version: version), .open, store: place.name)
        case .damaged(let candidates): return try recoverWithoutHeader(log, candidates, size: size)
        }
    }

    /// Reads only what the index does not know; nil if there is no index, or something to be repaired behind it.
    private mutating func resume(
        _ log: Descriptor, _ header: LogHeader, size: Int64
    ) throws(KVStoreError) -> OpenedLog? {
        guard usesIndex,
            let index = LogIndex.open(at: place.directory, of: header.fileID, logSize: size, on: fileSystem)
        else { return nil }
        table.beginPartial(bytesElsewhere: index.header.liveBytes)
        let found = try scan(log, size, header.fileID, from: LogScan.Outcome(endOf: index.header))
        guard found.damage.isEmpty, found.discardedRecordCount == 0 else {
            // What is repaired is the whole log, and all of it is looked at before intact records are cut off.
            table.removeAll()
            return nil
        }
        var opened = try recover(log, header, found, size: size)
        opened.indexedEnd = index.header.end
        opened.index = table.isPartial ? index : nil
        return opened
    }

    private mutating func scan(
        _ log: Descriptor, _ size: Int64, _ fileID: LogFileID, from start: LogScan.Outcome = .init()
    ) throws(KVStoreError) -> LogScan.Outcome {
        var scan = LogScan(
            log, size: size, fileID: fileID, maximumPayloadSize: maximumPayloadSize, from: start, on: fileSystem)
        do throws(FileSystemError) {
            return try scan.run { change, sequence, _ in table.apply(change, sequence) }
        } catch {
            throw failure(error)
        }
    }
}

// MARK: Repair

extension LogOpening {
    /// Makes a log that was read fit for appending, or, if that fails, leaves it untouched and unwritable.
    private mutating func recover(
        _ log: Descriptor, _ header: LogHeader, _ found: LogScan.Outcome, size: Int64, isHeaderDamaged: Bool = false
    ) throws(KVStoreError) -> OpenedLog {
        var opened = OpenedLog(
            log: AppendLog(
                LogFile(log, header: header, on: fileSystem), end: found.end, sequence: found.sequence,
                flushedSequence: found.endsFlushed ? found.sequence : found.flushedSequence,
                endsFlushed: found.endsFlushed || found.sequence == 0, space: LogSpace(space)))
        do throws(FileSystemError) {
            if isHeaderDamaged { try setAside(0..<Int64(LogHeader.size), of: log, .header, header) }
            for range in found.damage {
                if range.isEmpty {
                    issues.append(.missingRecords(offset: range.lowerBound))
                } else {
                    try setAside(range, of: log, .records, header)
                }
            }
            if found.isTorn {
                if found.discardedRecordCount > 0 { try setAside(found.end..<size, of: log, .tail, header) }
                // Or what is left of the tail could be taken for a record later.
                try opened.log.dropTail()
                issues.append(.tornTail(sizeInBytes: size - found.end))
            }
            guard isHeaderDamaged || !found.damage.isEmpty else { return opened }
            opened.log = try write(generation: header.generation &+ 1, after: found.sequence)
        } catch {
            let error = KVStoreError(error, .setAside, store: place.name)
            issues.append(.readOnly(error))
            opened.obstacle = error
        }
        return opened
    }

    /// Removes an index that knows more than there is in the log, durably: once that much is written again, it would lead
    /// past what was written.
    private mutating func dropIndex(of header: LogHeader, unlessWithin opened: inout OpenedLog) {
        guard opened.obstacle == nil, opened.log.file.header.fileID == header.fileID,
            let index = LogIndex.open(at: place.directory, of: header.fileID, logSize: .max, on: fileSystem),
            index.header.end > opened.log.end
        else { return }
        do throws(FileSystemError) {
            try fileSystem.unlink(.indexName, at: place.directory)
            try fileSystem.synchronize(place.directory, .full)
        } catch {
            let error = KVStoreError(error, .open, store: place.name)
            issues.append(.readOnly(error))
            opened.obstacle = error
        }
    }

    private mutating func setAside(
        _ range: Range<Int64>, of log: Descriptor, _ kind: KVDamageReport.Kind, _ header: LogHeader
    ) throws(FileSystemError) {
        let report = try place.quarantine.setAside(range, of: log, kind, logName: header.fileID.shortName)
        issues.append(.damage(report))
    }

    /// Reads the records by what may be left of the header; if there are none, the log is moved aside as a whole.
    private mutating func recoverWithoutHeader(
        _ log: Descriptor, _ candidates: [LogFileID], size: Int64
    ) throws(KVStoreError) -> OpenedLog {
        for candidate in candidates {
            let found = try scan(log, size, candidate)
            guard found.recordCount > 0 else { continue }
            let header = LogHeader(fileID: candidate, generation: 1)
            return try recover(log, header, found, size: size, isHeaderDamaged: true)
        }
        // A log that is no longer than a header never held anything: its creation was cut short.
        if size > Int64(LogHeader.size) {
            do throws(FileSystemError) {
                issues.append(.damage(try place.quarantine.setAsideLog(sizeInBytes: size)))
            } catch {
                throw KVStoreError(error, .setAside, store: place.name)
            }
        }
        let opened = try create()
        do { try fileSystem.close(log) } catch _ {}
        return opened
    }
}

/// A log that was opened.
struct OpenedLog: ~Copyable {
    var log: AppendLog

    /// Why nothing can be written, if the log was found in a state that could not be repaired.
    var obstacle: KVStoreError?

    /// The index that leads to what the table does not hold.
    var index: LogIndex?

    /// Where what no index knows begins.
    var indexedEnd: Int64 = 0
}
