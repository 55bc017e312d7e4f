import ForgeFileSystem
import SystemPackage

/// Opens the log of a store: reads it, sets damaged bytes aside, and leaves a log that can be appended to.
struct LogOpening: ~Copyable {
    let handle: StoreHandle
    private let space: LogSpace.Options

    /// The content of the log.
    var table: TableWriter

    /// The issues to report to the owner of the store.
    var issues: [KVStoreIssue] = []

    init(_ handle: StoreHandle, table: ValueTable, options: FileKVStore.Options) {
        self.handle = handle
        self.table = TableWriter(table)
        space = options.space
    }

    var fileSystem: any POSIXFileSystem { handle.fileSystem }

    /// Opens the log and reads it into ``table``.
    mutating func openForWriting() throws(KVStoreError) -> OpenedLog {
        let log: Descriptor
        do throws(FileSystemError) {
            log = try fileSystem.open(
                .logName, at: handle.directory, .readWrite, options: [.noFollow, .nonBlocking], permissions: [])
        } catch  where error.errno == .noSuchFileOrDirectory {
            return try create()
        } catch {
            throw failure(error)
        }
        do throws(KVStoreError) {
            return try recover(log)
        } catch {
            // The failure to open is the one to report.
            do { try fileSystem.close(log) } catch _ {}
            throw error
        }
    }

    func failure(_ error: FileSystemError) -> KVStoreError { KVStoreError(error, .open, store: handle.name) }

    private func create() throws(KVStoreError) -> OpenedLog {
        do throws(FileSystemError) {
            return OpenedLog(log: try write(generation: 1, after: 0))
        } catch {
            throw failure(error)
        }
    }

    /// Replaces the log, durably, by one with the content of the table.
    private func write(generation: UInt64, after sequence: UInt64) throws(FileSystemError) -> AppendLog {
        let header = LogHeader(fileID: LogFileID(random: fileSystem.randomBits), generation: generation)
        var replacement = try LogReplacement(header, at: handle.directory, on: fileSystem)
        var log: AppendLog
        do throws(FileSystemError) {
            var values = table.collected
            try replacement.append(retained: &values, upTo: sequence)
            if sequence > 0 { try replacement.appendFlushed(sequence + 1) }
            try replacement.synchronize()
            log = try replacement.moveIntoPlace(space)
        } catch {
            replacement.discard()
            throw error
        }
        let flush = log.startFlush(directory: handle.directory)
        try flush.run()
        log.didFlush(flush)
        return log
    }

    private mutating func recover(_ log: Descriptor) throws(KVStoreError) -> OpenedLog {
        let size: Int64
        let reading: LogHeader.Reading
        do throws(FileSystemError) {
            let status = try fileSystem.status(of: .descriptor(log))
            guard status.type == .regular else { throw FileSystemError(.open, .notSupported, path: .logName) }
            // Another program could change it through another hard link.
            guard status.linkCount == 1 else { throw FileSystemError(.open, .tooManyLinks, path: .logName) }
            size = status.sizeInBytes
            var reader = LogReader(log, size: min(size, Int64(LogHeader.size)), on: fileSystem)
            reading = LogHeader.read(try reader.withBytes(at: 0, count: Int(reader.size)) { [UInt8]($0) } ?? [])
        } catch {
            throw failure(error)
        }
        switch reading {
        case .valid(let header):
            return try recover(log, header, try scan(log, size, header.fileID), size: size)
        case .unknownVersion(let version):
            throw KVStoreError(.unknownFormat(version: version), .open, store: handle.name)
        case .damaged(let candidates): return try recoverWithoutHeader(log, candidates, size: size)
        }
    }

    mutating func scan(
        _ log: Descriptor, _ size: Int64, _ fileID: LogFileID
    ) throws(KVStoreError) -> LogScan.Outcome {
        var scan = LogScan(log, size: size, fileID: fileID, on: fileSystem)
        do throws(FileSystemError) {
            return try scan.run(into: &table)
        } catch {
            throw failure(error)
        }
    }
}

// MARK: Following

extension LogOpening {
    /// Reads the log in place into ``table``, up to the end that a word of the shared page states; changes nothing, and
    /// needs no lock of the store.
    ///
    /// If the word is that of another log, which this one has replaced, all of it is read.
    ///
    /// - Returns: Nil unless the log is intact up to there.
    mutating func openPublished(_ word: UInt64) throws(FileSystemError) -> AppendLog? {
        guard let (file, fileSize) = try Self.openReplacement(of: handle) else { return nil }
        let published = EngineSharing.end(of: file.header, in: word)
        let isPlace = published >= Int64(LogHeader.size) && published <= fileSize
        let size = isPlace ? published : fileSize
        var scan = LogScan(file.descriptor, size: size, fileID: file.header.fileID, on: fileSystem)
        let found = try scan.run(into: &table)
        guard found.damage.isEmpty, !found.isTorn, found.end == size else { return nil }
        return AppendLog(
            file, end: found.end, sequence: found.sequence,
            flushedSequence: found.endsFlushed ? found.sequence : found.flushedSequence,
            endsFlushed: found.endsFlushed || found.sequence == 0, space: LogSpace(space))
    }

    /// Opens the log that is in place; nil if there is none with a valid header, or a program could change it through
    /// another hard link.
    static func openReplacement(
        of handle: StoreHandle
    ) throws(FileSystemError) -> (file: LogFile, sizeInBytes: Int64)? {
        let fileSystem = handle.fileSystem
        let log: Descriptor
        do throws(FileSystemError) {
            log = try fileSystem.open(
                .logName, at: handle.directory, .readWrite, options: [.noFollow, .nonBlocking], permissions: [])
        } catch  where error.errno == .noSuchFileOrDirectory {
            return nil
        }
        do throws(FileSystemError) {
            let status = try fileSystem.status(of: .descriptor(log))
            if status.type == .regular, status.linkCount == 1,
                case .valid(let header) = LogHeader.read(
                    try fileSystem.readBytes(of: log, at: 0, count: LogHeader.size))
            {
                return (LogFile(log, header: header, on: fileSystem), status.sizeInBytes)
            }
        } catch {
            fileSystem.discard(log)
            throw error
        }
        fileSystem.discard(log)
        return nil
    }
}

// MARK: Repair

extension LogOpening {
    /// Prepares a log for appending or, if that fails, leaves it unchanged and read-only.
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
                if found.mayDiscardRecords { try setAside(found.end..<size, of: log, .tail, header) }
                // Otherwise the rest of the tail could later be mistaken for a record.
                try opened.log.dropTail()
                issues.append(.tornTail(sizeInBytes: size - found.end))
            }
            guard isHeaderDamaged || !found.damage.isEmpty else { return opened }
            opened.log = try write(generation: header.generation &+ 1, after: found.sequence)
        } catch {
            let error = KVStoreError(error, .setAside, store: handle.name)
            issues.append(.readOnly(error))
            opened.obstacle = error
        }
        return opened
    }

    private mutating func setAside(
        _ range: Range<Int64>, of log: Descriptor, _ kind: KVDamageReport.Kind, _ header: LogHeader
    ) throws(FileSystemError) {
        let report = try handle.quarantine.setAside(range, of: log, kind, logName: header.fileID.shortName)
        issues.append(.damage(report))
    }

    /// Reads the records with the help of the remains of the header; if there are none, moves the whole log aside.
    private mutating func recoverWithoutHeader(
        _ log: Descriptor, _ candidates: [LogFileID], size: Int64
    ) throws(KVStoreError) -> OpenedLog {
        for candidate in candidates {
            let found = try scan(log, size, candidate)
            guard found.recordCount > 0 else { continue }
            let header = LogHeader(fileID: candidate, generation: 1)
            return try recover(log, header, found, size: size, isHeaderDamaged: true)
        }
        do throws(FileSystemError) {
            let bytes = try fileSystem.readBytes(of: log, at: 0, count: LogHeader.size)
            if !LogHeader.isInterruptedCreation(bytes, fileSize: size) {
                issues.append(.damage(try handle.quarantine.setAsideLog(sizeInBytes: size)))
            }
        } catch {
            throw KVStoreError(error, .setAside, store: handle.name)
        }
        let opened = try create()
        do { try fileSystem.close(log) } catch _ {}
        return opened
    }
}

/// An opened log.
struct OpenedLog: ~Copyable {
    var log: AppendLog

    /// The reason why nothing can be written, if the log could not be repaired.
    var obstacle: KVStoreError?
}

/// Reading the log of a store that another process may be writing to, without changing anything.
///
/// A scan is repeated in two cases:
/// - Another log has been renamed into place meanwhile: the file that was read may lack writes acknowledged before the
///   store was opened for reading.
/// - Bytes are bad although a later record marks them as flushed. The scan may have read them before they were stored,
///   and the later record afterwards. The next scan begins after that record was seen, so bytes that are bad in two
///   successive scans are damaged.
extension LogOpening {
    /// The maximum number of scans of a log that changes during each scan.
    private static let scanLimit = 8

    /// The result of one scan of the log.
    struct Scan {
        var file: LogFile
        var sizeInBytes: Int64
        var isHeaderDamaged: Bool
        var found: LogScan.Outcome

        /// The bad ranges; only the confirmed ones in the result of ``scanForReading()``.
        var damage: [KVDamageReport] = []
        fileprivate var isInPlace = true

        /// Whether the log ends where a header would, because its creation was interrupted.
        var isInterruptedCreation = false

        /// Whether no record is left of those that a torn log had: a copy of it may have been cut short.
        var hasLostFirstRecord: Bool { found.isTorn && !found.mayDiscardRecords && found.recordCount == 0 }

        /// The offsets of the damage that a second scan has to find too.
        fileprivate var suspicions: [Int64] {
            damage.map(\.offset) + found.damage.map(\.lowerBound) + (hasLostFirstRecord ? [found.end] : [])
        }
    }

    /// Opens the log for reading, and reads it into ``table``.
    mutating func openForReading() throws(KVStoreError) -> OpenedLog {
        let scan = try scanForReading()
        issues += scan.damage.map { .damage($0) }
        for range in scan.found.damage where range.isEmpty {
            issues.append(.missingRecords(offset: range.lowerBound))
        }
        let log = AppendLog(
            scan.file, end: scan.found.end, sequence: scan.found.sequence, flushedSequence: scan.found.sequence,
            endsFlushed: true, space: LogSpace(LogSpace.Options(isMapped: false)))
        return OpenedLog(log: log, obstacle: KVStoreError(.readOnly, .open, store: handle.name))
    }

    /// Reads the log into ``table`` until two scans agree.
    mutating func scanForReading() throws(KVStoreError) -> Scan {
        var earlier: Scan?
        for number in 1...Self.scanLimit {
            var scan = try scanOnce()
            let suspicions = earlier?.suspicions ?? []
            let isConfirmed = scan.suspicions.allSatisfy(suspicions.contains)
            guard number < Self.scanLimit, !scan.isInPlace || !isConfirmed else {
                let reports = earlier?.damage ?? []
                scan.damage.removeAll { damage in
                    !reports.contains { $0.kind == damage.kind && $0.offset == damage.offset }
                }
                return scan
            }
            earlier = scan.isInPlace ? scan : nil
            table.removeAll()
        }
        preconditionFailure("the last scan is always taken")
    }

    private mutating func scanOnce() throws(KVStoreError) -> Scan {
        let descriptor: Descriptor
        do throws(FileSystemError) {
            descriptor = try fileSystem.open(
                .logName, at: handle.directory, .readOnly, options: [.noFollow, .nonBlocking], permissions: [])
        } catch {
            throw error.errno == .noSuchFileOrDirectory
                ? KVStoreError(.noStore, .open, store: handle.name, underlying: error) : failure(error)
        }
        do throws(KVStoreError) {
            return try scan(descriptor)
        } catch {
            fileSystem.discard(descriptor)
            throw error
        }
    }

    private mutating func scan(_ descriptor: Descriptor) throws(KVStoreError) -> Scan {
        let status: FileStatus
        let beginning: [UInt8]
        do throws(FileSystemError) {
            status = try fileSystem.status(of: .descriptor(descriptor))
            guard status.type == .regular else { throw FileSystemError(.open, .notSupported, path: .logName) }
            beginning = try fileSystem.readBytes(of: descriptor, at: 0, count: LogHeader.size)
        } catch {
            throw failure(error)
        }
        let size = status.sizeInBytes
        var header: LogHeader
        var found = LogScan.Outcome()
        var damage: [KVDamageReport] = []
        var (isHeaderDamaged, isInterruptedCreation) = (false, false)
        switch LogHeader.read(beginning) {
        case .valid(let valid): (header, found) = (valid, try scan(descriptor, size, valid.fileID))
        case .unknownVersion(let version):
            throw KVStoreError(.unknownFormat(version: version), .open, store: handle.name)
        case .damaged(let candidates):
            isInterruptedCreation = LogHeader.isInterruptedCreation(beginning, fileSize: size)
            isHeaderDamaged = !isInterruptedCreation
            if isHeaderDamaged {
                let kind: KVDamageReport.Kind = size > Int64(LogHeader.size) ? .header : .log
                damage.append(report(kind, 0..<min(size, Int64(LogHeader.size))))
            }
            header = LogHeader(fileID: LogFileID(random: { 0 }), generation: 1)
            for candidate in candidates where found.recordCount == 0 {
                header.fileID = candidate
                found = try scan(descriptor, size, candidate)
            }
        }
        damage += found.damage.filter { !$0.isEmpty }.map { report(.records, $0) }
        if found.mayDiscardRecords { damage.append(report(.tail, found.end..<size)) }
        do throws(FileSystemError) {
            let current = try fileSystem.status(.logName, at: handle.directory, followsSymbolicLinks: false)
            return Scan(
                file: LogFile(descriptor, header: header, on: fileSystem), sizeInBytes: size,
                isHeaderDamaged: isHeaderDamaged, found: found, damage: damage,
                isInPlace: current.inode == status.inode,
                isInterruptedCreation: isInterruptedCreation)
        } catch  where error.errno == .noSuchFileOrDirectory {
            throw KVStoreError(.noStore, .open, store: handle.name, underlying: error)
        } catch {
            throw failure(error)
        }
    }

    /// A report of damaged bytes that are left in the log.
    private func report(_ kind: KVDamageReport.Kind, _ range: Range<Int64>) -> KVDamageReport {
        KVDamageReport(
            kind: kind, file: String(handle.path.appending(.logName)), offset: range.lowerBound,
            sizeInBytes: range.upperBound - range.lowerBound, isSetAside: false)
    }
}
