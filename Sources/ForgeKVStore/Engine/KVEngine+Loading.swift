import ForgeFileSystem
import Synchronization

/// Taking in what the table does not hold, of a store that was opened by its index.
extension KVEngine {
    /// Takes in the value of a name; returns whether it has one. With `keepsAbsence` the table is to hold that there is
    /// none, so that it is not looked for again.
    @discardableResult
    func load(
        _ name: KeyName, for operation: KVStoreError.Operation, keepsAbsence: Bool
    ) throws(KVStoreError) -> Bool {
        while let (index, log) = writer.withLock({ source(of: name, $0) }) {
            let found: LogRecord.Change.Outcome
            do throws(LogIndex.Unreliable) {
                found = try find(name, index, log)
            } catch {
                try loadAll(operation)
                continue
            }
            let isCurrent = writer.withLock { writer in
                guard writer.index === index else { return false }
                switch found {
                case .value(let cell): writer.table.admit(cell, name)
                case .nothing: if keepsAbsence { writer.table.admit(nil, name) }
                }
                return true
            }
            if isCurrent, case .nothing = found { return false }
        }
        return true
    }

    /// Where to look for a name; nil if the table tells all.
    private func source(of name: KeyName, _ writer: borrowing Writer) -> (LogIndex, LogFile)? {
        guard let index = writer.index, writer.table.entry(of: name) == nil else { return nil }
        return (index, writer.log.file)
    }

    /// What the log holds under a name where the index ends; runs without a lock, for neither changes.
    private func find(
        _ name: KeyName, _ index: LogIndex, _ log: LogFile
    ) throws(LogIndex.Unreliable) -> LogRecord.Change.Outcome {
        for offset in try index.offsets(of: name) {
            let record: (change: LogRecord.Change, sequence: UInt64)?
            do throws(FileSystemError) {
                record = try log.record(
                    at: offset, before: index.header.end, maximumPayloadSize: options.readablePayloadSize)
            } catch {
                throw LogIndex.Unreliable()
            }
            // A number that the index does not know of would be used again by what is written next.
            guard let record, record.sequence <= index.header.sequence else { throw LogIndex.Unreliable() }
            // It would be read once for each of its names: everything is read instead.
            if record.change.count > Self.largestBatch { throw LogIndex.Unreliable() }
            if let outcome = record.change.outcome(for: name, record.sequence) { return outcome }
        }
        return .nothing
    }

    /// Records of larger batches are read with all others.
    private static let largestBatch: UInt64 = 64

    /// Takes in everything.
    func loadAll(_ operation: KVStoreError.Operation) throws(KVStoreError) {
        guard table.view.isPartial else { return }
        try whileNobodyRewrites { (issues) throws(KVStoreError) in
            issues += try loadRest(operation)
            guard !issues.isEmpty, writer.withLock({ $0.isWritable }) else { return }
            do throws(KVStoreError) {
                // So that what was damaged is in the log no more.
                try rewrite(&issues)
            } catch {
                issues.append(.compactionFailed(error))
            }
        }
    }

    /// The same for who holds `rewriting`: reads the log and sets aside what is damaged; returns what is to be told of it.
    func loadRest(_ operation: KVStoreError.Operation) throws(KVStoreError) -> [KVStoreIssue] {
        guard
            let (index, log, end) = writer.withLock({ writer in
                writer.index.map { ($0, writer.log.file, writer.log.end) }
            })
        else { return [] }
        var staged = TableWriter(ValueTable())
        var scan = LogScan(
            log.descriptor, size: end, fileID: log.header.fileID, maximumPayloadSize: options.readablePayloadSize,
            on: log.fileSystem)
        let found: LogScan.Outcome
        do throws(FileSystemError) {
            found = try scan.run { change, sequence, _ in staged.apply(change, sequence) }
        } catch {
            throw KVStoreError(error, operation, store: place.name)
        }
        let issues = setAside(found, upTo: end, of: log)
        var rest = staged.contents[...]
        while !rest.isEmpty {
            let part = rest.prefix(1024)
            rest = rest.dropFirst(part.count)
            writer.withLock { writer in
                guard writer.index === index else { return }
                for (name, cell) in part { writer.table.admit(cell, name) }
            }
        }
        writer.withLock { writer in
            guard writer.index === index else { return }
            writer.index = nil
            writer.table.endPartial()
            // Records with higher numbers than the index knows of: what is written next comes after them.
            writer.log.follow(
                to: writer.log.end, sequence: max(writer.log.sequence, found.sequence),
                flushedSequence: writer.log.flushedSequence, endsFlushed: writer.log.endsFlushed)
        }
        return issues
    }

    private func setAside(_ found: LogScan.Outcome, upTo end: Int64, of log: LogFile) -> [KVStoreIssue] {
        var issues: [KVStoreIssue] = []
        do throws(FileSystemError) {
            let name = log.header.fileID.shortName
            for range in found.damage {
                guard !range.isEmpty else {
                    issues.append(.missingRecords(offset: range.lowerBound))
                    continue
                }
                let report = try place.quarantine.setAside(range, of: log.descriptor, .records, logName: name)
                issues.append(.damage(report))
            }
            if found.end < end {
                let report = try place.quarantine.setAside(found.end..<end, of: log.descriptor, .tail, logName: name)
                issues.append(.damage(report))
            }
        } catch {
            let error = KVStoreError(error, .setAside, store: place.name)
            writer.withLock { $0.obstacle = error }
            issues.append(.readOnly(error))
        }
        return issues
    }
}
