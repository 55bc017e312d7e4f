import Dispatch
import ForgeCoding
import ForgeFileSystem
import Logging
import Synchronization
import SystemPackage

/// The one object of this process that reads and writes a store's log; all `FileKVStore` objects over the store share
/// it.
///
/// Reads are lock-free. Lock order: `compacting`, `flushing`, `writer`. Writes do not hold `writer` across a flush; the
/// end of a compaction, `removeAll` on a full device and the removal of a failed record do.
final class KVEngine: Sendable {
    let handle: StoreHandle
    let table: ValueTable
    let options: FileKVStore.Options

    /// The issues found when the log was opened, until the first object over the store takes them.
    private let openingIssues: Mutex<[KVStoreIssue]>

    let writer: Mutex<Writer>
    let flushing = GroupCommit()
    let compacting = Mutex(())

    /// The observers of changes, also of those by other processes while there is one.
    let changes = ChangeObservers()

    /// Detects that this process is a forked child, which may not touch the store.
    let fork = ForkDetector()

    /// Whether the store was closed, after which writes throw and reads give what it held then. Set under `writer`.
    private let closed = Atomic(false)

    var isClosed: Bool { closed.load(ordering: .acquiring) }

    private let closing = SingleRun()

    /// Jobs in other threads.
    let background = DispatchGroup()

    init(_ handle: StoreHandle, options: FileKVStore.Options) throws(KVStoreError) {
        defer { handle.sharing?.lock.release() }
        var options = options
        if handle.sharing != nil {
            // Other processes may truncate the log: storing into mapped memory would fault.
            options.isMapped = false
        }
        let table = ValueTable()
        var opening = LogOpening(handle, table: table, options: options)
        var opened = options.access == .readOnly ? try opening.openForReading() : try opening.openForWriting()
        try Self.share(&opened, at: handle)
        openingIssues = Mutex(opening.issues)
        writer = Mutex(Writer(log: opened.log, table: opening.table, obstacle: opened.obstacle))
        self.handle = handle
        self.table = table
        self.options = options
    }
}

extension KVEngine {
    /// The issues found when the log was opened; none for later callers, so that each is reported once.
    func takeOpeningIssues() -> [KVStoreIssue] {
        openingIssues.withLock { issues in
            defer { issues = [] }
            return issues
        }
    }
}

// MARK: In the background

extension KVEngine {
    /// Does something in another thread, or in this one if there can be no other. No lock of the engine may be held.
    ///
    /// The job does not retain the engine, which outlives it all the same: ``close()`` waits for jobs. A weak reference
    /// would make every use of the engine slower.
    func inBackground(_ work: @escaping @Sendable (KVEngine) -> Void) {
        BackgroundJob.start(in: background) { [unowned(unsafe) self] in work(self) }
    }
}

// MARK: The end

extension KVEngine {
    /// Flushes and trims the log, and gives the store back to other processes, also if flushing fails.
    ///
    /// A write beside this call either is flushed as well or throws.
    func close() throws(KVStoreError) {
        try checkFork(.close)
        let inUse = KVStoreError(
            .unavailable(.inUse(processID: options.processes.own.id)), .close, store: handle.name)
        // It would wait for itself, as would a handler of issues that is called by the closing.
        guard BackgroundJob.current == nil else { throw inUse }
        try closing.run(reentered: inUse) { () throws(KVStoreError) in try closeOnce() }
    }

    private func closeOnce() throws(KVStoreError) {
        writer.withLock { _ in closed.store(true, ordering: .releasing) }
        background.wait()
        defer {
            // A job that begins now may not reserve space in a log that another process writes to.
            writer.withLock { $0.log.releaseSpace() }
            handle.release()
        }
        let isWritable = try writer.withLock { (writer) throws(KVStoreError) in
            guard !writer.log.isPoisoned else { throw KVStoreError(.durabilityUnknown, .close, store: handle.name) }
            return writer.isWritable
        }
        guard isWritable else { return }
        // Flushing and trimming would succeed in a directory that was removed, and hide that the log was truncated.
        try checkReachability(.close)
        if let sharing = handle.sharing {
            try close(sharing)
        } else {
            try withCompactionLock { (issues) throws(KVStoreError) in try closeLog(&issues) }
        }
    }

    /// Closes the store when the last `FileKVStore` object is released.
    func closeOrLog() {
        // The log belongs to the parent, and its threads do not exist here.
        guard !fork.isForkedChild, !isClosed else { return }
        // A job may release the store, from a handler of issues, and cannot wait for itself.
        if let job = BackgroundJob.current { return job.afterwards { self.closeOrLog() } }
        do throws(KVStoreError) {
            try close()
        } catch {
            options.logger.error("closing \(handle.path): \(error)")
        }
    }

    private func closeLog(_ issues: inout [KVStoreIssue]) throws(KVStoreError) {
        if writer.withLock({ $0.isMostlySuperseded }) {
            do throws(KVStoreError) {
                try replaceLog()
            } catch {
                // It stays as long as it is; what was written there is made durable all the same.
                issues.append(.compactionFailed(error))
            }
        }
        if writer.withLock({ $0.log.sequence > $0.log.flushedSequence }) { try flush() }
        // Compaction may have found damage that could not be set aside: the log is left as it is then.
        guard writer.withLock({ $0.isWritable }) else { return }
        try appendFlushMarker()
        try withLog { (log) throws(FileSystemError) in try log.trim() }
    }

    /// Says in the log that all of it has reached the device, which it has: damage to the last records could be taken
    /// for a torn tail otherwise.
    func appendFlushMarker() throws(KVStoreError) {
        try withLog { (log) throws(FileSystemError) in
            if !log.endsFlushed { _ = try log.append(.flushed, .empty, .empty) }
        }
    }

    /// Calls `change` with the log; for changes that are not about a key.
    private func withLog(_ change: (inout AppendLog) throws(FileSystemError) -> Void) throws(KVStoreError) {
        try writer.withLock { (writer) throws(KVStoreError) in
            do throws(FileSystemError) {
                try change(&writer.log)
            } catch {
                throw KVStoreError(error, .synchronize, store: handle.name)
            }
        }
    }
}

// MARK: Flushing

extension KVEngine {
    /// Pushes everything that was written to the device.
    func synchronize() throws(KVStoreError) {
        // There is nothing to flush in a store that is only read.
        guard options.access == .readWrite else { return }
        try checkUse(.synchronize)
        try loadRemoteChanges(.synchronize)
        try writer.withLock { (writer) throws(KVStoreError) in try check(writer, .synchronize) }
        try flush()
        try checkReachability(.synchronize)
    }

    /// Throws unless the name `log` still leads to the open file, in full: another program may have removed the
    /// directory, put another log there, or truncated it, which loses what was written.
    func checkReachability(_ operation: KVStoreError.Operation) throws(KVStoreError) {
        while true {
            let (log, end, restarts) = writer.withLock { ($0.log.file, $0.log.end, $0.log.restartCount) }
            let (named, own): (BriefFileStatus, BriefFileStatus)
            do throws(FileSystemError) {
                named = try handle.statusOfLog()
                // Other processes that share the store may replace the log at any time.
                guard handle.sharing == nil else { return }
                own = try handle.fileSystem.briefStatus(of: .descriptor(log.descriptor))
            } catch  where error.errno == .noSuchFileOrDirectory {
                throw KVStoreError(.noStore, operation, store: handle.name, underlying: error)
            } catch {
                throw KVStoreError(error, operation, store: handle.name)
            }
            if named.inode == own.inode, named.sizeInBytes >= end { return }
            // This process may have replaced or emptied it meanwhile.
            let isCurrent = writer.withLock { $0.log.file === log && $0.log.restartCount == restarts }
            guard isCurrent else { continue }
            guard named.inode == own.inode else { throw KVStoreError(.noStore, operation, store: handle.name) }
            // Records that are appended now would follow a gap.
            writer.withLock { $0.log.poison() }
            throw KVStoreError(.damaged, operation, store: handle.name)
        }
    }

    /// Flushes everything written before the call to the device. Group commit: threads that arrive during a flush share
    /// the next one.
    func flush() throws(KVStoreError) {
        let wanted = writer.withLock { $0.log.sequence }
        guard flushing.begin(wanted, isDone: { writer.withLock { !$0.log.needsFlush(wanted) } }) else { return }
        defer { flushing.end(flushed: writer.withLock { $0.log.isPoisoned ? .max : $0.log.flushedSequence }) }
        let flush = try writer.withLock { (writer) throws(KVStoreError) -> AppendLog.Flush? in
            guard writer.log.needsFlush(wanted) else { return nil }
            guard !writer.log.isPoisoned else {
                throw KVStoreError(.durabilityUnknown, .synchronize, store: handle.name)
            }
            return writer.log.startFlush(directory: handle.directory)
        }
        guard let flush else { return }
        do throws(FileSystemError) {
            try flush.run()
        } catch {
            writer.withLock { $0.log.poison() }
            throw KVStoreError(.durabilityUnknown, .synchronize, store: handle.name, underlying: error)
        }
        writer.withLock { $0.log.didFlush(flush) }
    }
}
