import ForgeFileSystem
import Synchronization
import SystemPackage

/// Compaction: replacing the log by one without superseded records, beside readers and writers.
extension KVEngine {
    /// A last stretch of the log that is copied while writers wait.
    private static let shortTail: Int64 = 1 << 16

    /// How many times the tail is copied before writers have to wait for the rest, however long it is.
    private static let mostRounds = 8

    /// Compacts the log; everything that was written is durable then.
    func compact() throws(KVStoreError) {
        try checkUse(.compact)
        if let sharing { return try compact(sharing) }
        try withCompactionLock { (_) throws(KVStoreError) in
            // Damage that could not be set aside exists only in the old log.
            try writer.withLock { (writer) throws(KVStoreError) in try check(writer, .compact) }
            try replaceLog()
            try flush()
        }
    }

    /// Calls `body` holding `compacting`, and reports the issues that it adds after releasing the lock.
    func withCompactionLock<Failure>(
        _ body: (inout [KVStoreIssue]) throws(Failure) -> Void
    ) throws(Failure) {
        var issues: [KVStoreIssue] = []
        defer { issues.forEach(options.report) }
        try compacting.withLock { (_) throws(Failure) in try body(&issues) }
    }

    /// Compacts the log, in a background job if the options allow.
    func compactWhenDue() {
        let isMine = writer.withLock { writer in
            guard writer.isCompactionDue(floor: options.compactionFloorInBytes) else { return false }
            writer.compactionThreshold = .max
            return true
        }
        guard isMine else { return }
        if let sharing { return compactNow(sharing) }
        guard options.compactsInBackground else { return compactNow() }
        inBackground { $0.compactNow() }
    }

    private func compactNow() {
        withCompactionLock { issues in
            let isWanted = writer.withLock { writer in
                // Another thread may have compacted it.
                writer.compactionThreshold = 0
                guard writer.isWritable, !isClosed,
                    writer.isCompactionDue(floor: options.compactionFloorInBytes)
                else { return false }
                writer.compactionThreshold = .max
                return true
            }
            guard isWanted else { return }
            do throws(KVStoreError) {
                try replaceLog()
            } catch {
                // The write that set this off is done and stays acknowledged.
                writer.withLock { $0.postponeCompaction() }
                issues.append(.compactionFailed(error))
            }
        }
    }

    /// Reserves the next window of the log, in a background job if the options allow.
    func prepareSpace() {
        guard options.compactsInBackground, let space = writer.withLock({ $0.log.nextSpace() }) else { return }
        inBackground { _ in space.prepare() }
    }

    /// The caller holds `compacting`, and has checked that the log can be written to. Until the next flush, a power cut
    /// may bring the old log back, with all that was flushed there.
    func replaceLog() throws(KVStoreError) {
        // A log that another program has put there, such as one from a backup, is not this store's to replace.
        try checkReachability(.compact)
        do throws(FileSystemError) {
            let (old, end, sequence, restarts) = writer.withLock {
                ($0.log.file, $0.log.end, $0.log.sequence, $0.log.restartCount)
            }
            let header = LogHeader(
                fileID: LogFileID(random: handle.fileSystem.randomBits), generation: old.header.generation &+ 1)
            var replacement = try LogReplacement(header, at: handle.directory, on: handle.fileSystem)
            do throws(FileSystemError) {
                var values = TableScan.values(upTo: sequence) { piece in writer.withLock { piece($0.table) } }
                try replacement.append(retained: &values, upTo: sequence)
                let copied = try follow(old, from: end, restarts, into: &replacement)
                try takePlace(of: old, copied: copied, restarts, &replacement)
            } catch {
                replacement.discard()
                throw error
            }
        } catch {
            throw KVStoreError(error, .compact, store: name)
        }
    }

    /// Throws if the records that were copied are none of the log's any more.
    private static func check(_ log: borrowing AppendLog, _ restarts: Int) throws(FileSystemError) {
        guard log.restartCount == restarts else { throw FileSystemError(.write, .canceled, path: .logName) }
    }

    /// Copies records appended since, in rounds, until little is left; returns the end of what was copied.
    ///
    /// Copying is faster than writing, so each round is shorter than the one before, unless it waits for a flush: that
    /// happens before the first round, and once more if the old log was flushed since.
    private func follow(
        _ old: LogFile, from start: Int64, _ restarts: Int, into replacement: inout LogReplacement
    ) throws(FileSystemError) -> Int64 {
        var copied = start
        try replacement.synchronize()
        if options.compactsInBackground { replacement.reserve(options.space) }
        for round in 0..<Self.mostRounds {
            let (end, flushed) = try writer.withLock { (writer) throws(FileSystemError) in
                try Self.check(writer.log, restarts)
                return (writer.log.end, writer.log.flushedSequence)
            }
            try replacement.append(copied..<end, of: old)
            let isShort = end - copied <= Self.shortTail
            copied = end
            if flushed > replacement.synchronizedSequence, round < 2 {
                try replacement.synchronize()
            } else if isShort {
                break
            }
        }
        return copied
    }

    /// Copies the rest and puts the new log in the place of the old one.
    private func takePlace(
        of old: LogFile, copied: Int64, _ restarts: Int, _ replacement: inout LogReplacement
    ) throws(FileSystemError) {
        _ = flushing.begin(.max, isDone: { false })
        defer { flushing.end(flushed: 0) }
        try writer.withLock { (writer) throws(FileSystemError) in
            try Self.check(writer.log, restarts)
            let sequence = writer.log.sequence
            try replacement.append(copied..<writer.log.end, of: old)
            // Records acknowledged as durable must be durable in the new log as well.
            if writer.log.flushedSequence > replacement.synchronizedSequence { try replacement.synchronize() }
            if replacement.synchronizedSequence == sequence { try replacement.appendFlushed(sequence + 1) }
            let isPoisoned = writer.log.isPoisoned
            let (named, own) = (
                try handle.statusOfLog(), try handle.fileSystem.briefStatus(of: .descriptor(old.descriptor))
            )
            guard named.inode == own.inode else { throw FileSystemError(.rename, .canceled, path: .logName) }
            writer.log = try replacement.moveIntoPlace(options.space)
            if isPoisoned { writer.log.poison() }
            writer.compactionThreshold = 0
        }
    }
}

/// Compacting and closing a store that other processes have open too.
extension KVEngine {
    /// Compacts the log, durably, under the lock of the store.
    func compact(_ sharing: EngineSharing) throws(KVStoreError) {
        try withLock(sharing, .compact) { () throws(KVStoreError) in
            try writer.withLock { (writer) throws(KVStoreError) in try check(writer, .compact) }
            try replaceLog(sharing)
        }
    }

    /// The same if enough of the log is outdated.
    func compactNow(_ sharing: EngineSharing) {
        do throws(KVStoreError) {
            try withLock(sharing, .compact) { () throws(KVStoreError) in
                let isWanted = writer.withLock { writer in
                    // Another process may have done it.
                    writer.compactionThreshold = 0
                    return writer.isWritable && !isClosed
                        && writer.isCompactionDue(floor: options.compactionFloorInBytes)
                }
                if isWanted { try replaceLog(sharing) }
            }
        } catch {
            // The write that set this off is done and stays acknowledged.
            writer.withLock { $0.postponeCompaction() }
            if error.code != .unavailable(.closed) { options.report(.compactionFailed(error)) }
        }
    }

    private func replaceLog(_ sharing: EngineSharing) throws(KVStoreError) {
        do throws(FileSystemError) {
            _ = flushing.begin(.max, isDone: { false })
            defer { flushing.end(flushed: 0) }
            try writer.withLock { (writer) throws(FileSystemError) in try replaceLog(of: &writer, sharing) }
        } catch {
            throw KVStoreError(error, .compact, store: name)
        }
        // Until the name has reached the device, a power cut could bring the old log back.
        try flush()
        handle.removalReserve.fill()
    }

    private func replaceLog(of writer: inout Writer, _ sharing: EngineSharing) throws(FileSystemError) {
        let header = LogHeader(
            fileID: LogFileID(random: handle.fileSystem.randomBits),
            generation: writer.log.file.header.generation &+ 1)
        var replacement = try LogReplacement(header, at: handle.directory, on: handle.fileSystem)
        do throws(FileSystemError) {
            let sequence = writer.log.sequence
            var values = writer.table.collected
            try replacement.append(retained: &values, upTo: sequence)
            if sequence > 0 { try replacement.appendFlushed(sequence + 1) }
            try replacement.synchronize()
            writer.log = try replacement.moveIntoPlace(options.space)
        } catch {
            replacement.discard()
            throw error
        }
        writer.compactionThreshold = 0
        sharing.noteFile(of: writer.log)
        sharing.note(writer.log)
    }

    /// Flushes the log and, if no other process has the store open, appends a flush marker.
    func close(_ sharing: EngineSharing) throws(KVStoreError) {
        guard writer.withLock({ $0.log.sequence > $0.log.flushedSequence || !$0.log.endsFlushed }) else { return }
        // Before the lock is asked for, which may be in vain.
        try flush()
        try withLock(sharing, .synchronize, isClosing: true) { () throws(KVStoreError) in
            do throws(FileSystemError) {
                guard try sharing.page.isAlone() else { return }
                guard writer.withLock({ $0.isWritable }) else { return }
            } catch {
                throw KVStoreError(error, .synchronize, store: name)
            }
            try flush()
            try appendFlushMarker()
            writer.withLock { sharing.note($0.log) }
        }
    }
}
