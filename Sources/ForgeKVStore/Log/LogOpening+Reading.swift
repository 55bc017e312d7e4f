import ForgeFileSystem
import SystemPackage

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

    private struct Scan {
        var file: LogFile
        var found: LogScan.Outcome
        var damage: [KVDamageReport]
        var isInPlace: Bool
    }

    /// Reads the log into ``table``.
    mutating func openForReading() throws(KVStoreError) -> OpenedLog {
        var earlier: [KVDamageReport] = []
        for number in 1...Self.scanLimit {
            let scan = try scanForReading()
            let confirmed = scan.damage.filter(earlier.contains)
            guard number == Self.scanLimit || (scan.isInPlace && confirmed == scan.damage) else {
                earlier = scan.isInPlace ? scan.damage : []
                table.removeAll()
                continue
            }
            issues += confirmed.map { .damage($0) }
            for range in scan.found.damage where range.isEmpty {
                issues.append(.missingRecords(offset: range.lowerBound))
            }
            let log = AppendLog(
                scan.file, end: scan.found.end, sequence: scan.found.sequence, flushedSequence: scan.found.sequence,
                endsFlushed: true, space: LogSpace(LogSpace.Options(isMapped: false)))
            return OpenedLog(log: log, obstacle: KVStoreError(.readOnly, .open, store: handle.name))
        }
        preconditionFailure("the last scan is always taken")
    }

    private mutating func scanForReading() throws(KVStoreError) -> Scan {
        let descriptor: Descriptor
        do throws(FileSystemError) {
            descriptor = try fileSystem.open(
                .logName, at: handle.directory, .readOnly, options: [.noFollow, .nonBlocking], permissions: [])
        } catch {
            throw error.errno == .noSuchFileOrDirectory
                ? KVStoreError(.noStore, .open, store: handle.name, underlying: error) : failure(error)
        }
        do throws(KVStoreError) {
            return try scanForReading(descriptor)
        } catch {
            fileSystem.discard(descriptor)
            throw error
        }
    }

    private mutating func scanForReading(_ descriptor: Descriptor) throws(KVStoreError) -> Scan {
        let size: Int64
        let inode: UInt64
        let beginning: [UInt8]
        do throws(FileSystemError) {
            let status = try fileSystem.status(of: .descriptor(descriptor))
            guard status.type == .regular else { throw FileSystemError(.open, .notSupported, path: .logName) }
            (size, inode) = (status.sizeInBytes, status.inode)
            beginning = try fileSystem.readBytes(of: descriptor, at: 0, count: LogHeader.size)
        } catch {
            throw failure(error)
        }
        var damage: [KVDamageReport] = []
        var header: LogHeader
        var found: LogScan.Outcome
        switch LogHeader.read(beginning) {
        case .valid(let valid): (header, found) = (valid, try scan(descriptor, size, valid.fileID))
        case .unknownVersion(let version):
            throw KVStoreError(.unknownFormat(version: version), .open, store: handle.name)
        case .damaged(let candidates):
            if !LogHeader.isInterruptedCreation(beginning, fileSize: size) {
                let kind: KVDamageReport.Kind = size > Int64(LogHeader.size) ? .header : .log
                damage.append(report(kind, 0..<min(size, Int64(LogHeader.size))))
            }
            (header, found) = (LogHeader(fileID: LogFileID(random: { 0 }), generation: 1), LogScan.Outcome())
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
                file: LogFile(descriptor, header: header, on: fileSystem), found: found, damage: damage,
                isInPlace: current.inode == inode)
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
