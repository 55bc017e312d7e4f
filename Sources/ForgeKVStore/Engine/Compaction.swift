import ForgeFileSystem
import Synchronization
import SystemPackage

/// Compaction: replacing the log by one without superseded records, beside readers and writers, and in a shared store
/// beside other processes.
///
/// The new log is written and flushed without a lock. Only for the last records and the renaming, a shared store takes
/// its lock, and writers wait.
extension KVEngine {
    /// A last stretch of the log that is copied while writers wait.
    private static let shortTail: Int64 = 1 << 16

    /// How many times the tail is copied before writers have to wait for the rest, however long it is.
    private static let mostRounds = 8

    /// How often a log is compacted again that another process has replaced, or that was emptied, meanwhile.
    private static let mostAttempts = 4

    /// Compacts the log; everything that was written is durable then.
    ///
    /// A log that others have replaced or emptied in every attempt is compacted: the last of them began after this call.
    func compact() throws(KVStoreError) {
        try checkUse(.compact)
        try withCompactionLock { (_) throws(KVStoreError) in
            var isReplaced = false
            for _ in 0..<Self.mostAttempts where !isReplaced {
                try readLogToCompact()
                do throws(KVStoreError) {
                    try replaceLog()
                    isReplaced = true
                } catch  where error.isCanceled {}
            }
            if !isReplaced { try readLogToCompact() }
            try flush()
        }
    }

    /// Reads what other processes have written.
    private func readLogToCompact() throws(KVStoreError) {
        try loadRemoteChanges(.compact)
        // Damage that could not be set aside exists only in the old log.
        try writer.withLock { (writer) throws(KVStoreError) in try check(writer, .compact) }
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
        guard options.compactsInBackground else { return compactNow() }
        inBackground { $0.compactNow() }
    }

    private func compactNow() {
        withCompactionLock { issues in
            let isWanted = writer.withLock { writer in
                // Another thread or process may have compacted it.
                writer.compactionThreshold = 0
                guard writer.isWritable, !isClosed,
                    writer.isCompactionDue(floor: options.compactionFloorInBytes)
                else { return false }
                writer.compactionThreshold = .max
                return true
            }
            guard isWanted else { return }
            if let sharing, !sharing.claimCompaction() { return writer.withLock { $0.postponeCompaction() } }
            defer { sharing?.endCompaction() }
            do throws(KVStoreError) {
                try replaceLog()
                // Other processes write to the new log now: its name must not be lost for as long as this one waits for
                // its next flush.
                if sharing != nil { try flush() }
            } catch {
                // The write that set this off is done and stays acknowledged.
                writer.withLock { $0.postponeCompaction() }
                guard sharing == nil || !error.isCanceled && error.code != .unavailable(.closed) else { return }
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
    ///
    /// - Throws: An error that is canceled (`isCanceled`) if the log was emptied, or replaced by another process,
    ///   meanwhile.
    func replaceLog() throws(KVStoreError) {
        // A log that another program has put there, such as one from a backup, is not this store's to replace.
        try checkReachability(.compact)
        do throws(FileSystemError) {
            let (old, end, sequence, restarts) = writer.withLock {
                ($0.log.file, $0.log.end, $0.log.sequence, $0.log.restartCount)
            }
            let fileSystem = handle.fileSystem
            let header = LogHeader(
                fileID: LogFileID(random: fileSystem.randomBits), generation: old.header.generation &+ 1)
            let temporary =
                sharing == nil
                ? LogTemporaryFile.newLog
                : LogTemporaryFile.newLog(of: options.processes.own, fileSystem.randomBits())
            var replacement = try LogReplacement(header, temporary, at: handle.directory, on: fileSystem)
            do throws(FileSystemError) {
                var values = TableScan.values(upTo: sequence) { piece in writer.withLock { piece($0.table) } }
                try replacement.append(retained: &values, upTo: sequence)
                let retainedEnd = replacement.size
                let copied = try follow(old, from: end, restarts, into: &replacement)
                try takePlace(
                    of: old, copied: copied, restarts, &replacement, retainedEnd: retainedEnd,
                    shift: retainedEnd - end)
            } catch {
                replacement.discard()
                throw error
            }
        } catch {
            throw (error.underlying as? KVStoreError) ?? KVStoreError(error, .compact, store: name)
        }
    }

    /// Throws unless the records that were copied are those of the log.
    private static func check(_ log: borrowing AppendLog, is old: LogFile, _ restarts: Int) throws(FileSystemError) {
        guard log.file === old, log.restartCount == restarts else {
            throw FileSystemError(.write, .canceled, path: .logName)
        }
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
            // A failure is that of the last step too.
            do throws(KVStoreError) { try loadRemoteChanges(.compact) } catch _ {}
            let (end, flushed) = try writer.withLock { (writer) throws(FileSystemError) in
                try Self.check(writer.log, is: old, restarts)
                return (writer.log.end, writer.log.flushedSequence)
            }
            try replacement.append(copied..<end, of: old)
            let isShort = end - copied <= Self.shortTail
            copied = end
            // What other processes have flushed is not known.
            if sharing == nil ? flushed > replacement.synchronizedSequence : !replacement.isSynchronized, round < 2 {
                try replacement.synchronize()
            } else if isShort {
                break
            }
        }
        return copied
    }

    /// Copies the rest and puts the new log in the place of the old one.
    private func takePlace(
        of old: LogFile, copied: Int64, _ restarts: Int, _ replacement: inout LogReplacement, retainedEnd: Int64,
        shift: Int64
    ) throws(FileSystemError) {
        guard let sharing else {
            _ = flushing.begin(.max, isDone: { false })
            defer { flushing.end(flushed: 0) }
            try exchange(old, copied: copied, restarts, &replacement)
            return handle.removalReserve.fill()
        }
        // A flush in progress may go on beside this: all that it covers is durable in the new log.
        do throws(KVStoreError) {
            try withLock(sharing, .compact) { () throws(KVStoreError) in
                do throws(FileSystemError) {
                    try sharing.announce(
                        replacement.header, inPlaceOf: old.header, retainedEnd: retainedEnd, shift: shift)
                    try exchange(old, copied: copied, restarts, &replacement)
                } catch {
                    throw KVStoreError(error, .compact, store: name)
                }
                handle.removalReserve.fill()
            }
        } catch {
            throw FileSystemError(.rename, .canceled, path: .logName, underlying: error)
        }
    }

    private func exchange(
        _ old: LogFile, copied: Int64, _ restarts: Int, _ replacement: inout LogReplacement
    ) throws(FileSystemError) {
        try writer.withLock { (writer) throws(FileSystemError) in
            try Self.check(writer.log, is: old, restarts)
            let sequence = writer.log.sequence
            try replacement.append(copied..<writer.log.end, of: old)
            // Records acknowledged as durable, by any process, must be durable in the new log as well.
            let durable = sharing == nil ? writer.log.flushedSequence : sequence
            if durable > replacement.synchronizedSequence { try replacement.synchronize() }
            if replacement.synchronizedSequence == sequence { try replacement.appendFlushed(sequence + 1) }
            let isPoisoned = writer.log.isPoisoned
            let (named, own) = (
                try handle.statusOfLog(), try handle.fileSystem.briefStatus(of: .descriptor(old.descriptor))
            )
            guard named.inode == own.inode else { throw FileSystemError(.rename, .canceled, path: .logName) }
            writer.log = try replacement.moveIntoPlace(options.space)
            if isPoisoned { writer.log.poison() }
            writer.compactionThreshold = 0
            if let sharing {
                sharing.noteFile(of: writer.log)
                sharing.note(writer.log)
            }
        }
    }
}

extension KVStoreError {
    /// Whether a compaction was given up because the log was replaced or emptied meanwhile.
    fileprivate var isCanceled: Bool { (underlying as? FileSystemError)?.errno == .canceled }
}

/// Closing a store that other processes have open too.
extension KVEngine {
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
