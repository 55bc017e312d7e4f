import ForgeFileSystem
import Synchronization
import SystemPackage

/// A store that several processes have open.
///
/// A write holds the lock of the store while it reads the records of other processes, appends its own and publishes the
/// new state. A read takes no lock of the store unless another log has replaced the open one. Lock order: the lock of
/// the store, `flushing`, `writer`.
extension KVEngine {
    /// The commit step of a shared store: calls `body` under the lock of the store, with all records of other processes
    /// applied, and publishes what it wrote.
    @inline(never)
    func commitShared<Result: ~Copyable & Sendable>(
        _ sharing: EngineSharing, _ operation: KVStoreError.Operation,
        _ body: (inout Writer) throws(KVStoreError) -> Result
    ) throws(KVStoreError) -> Result {
        try checkUse(operation)
        return try withLock(sharing, operation) { () throws(KVStoreError) -> Result in
            try writer.withLock { (writer) throws(KVStoreError) -> Result in
                defer { sharing.note(writer.log) }
                return try body(&writer)
            }
        }
    }

    /// Reads what other processes have written.
    @inline(__always)
    func loadRemoteChanges(_ operation: KVStoreError.Operation) throws(KVStoreError) {
        if let sharing = handle.sharing, sharing.mayHaveRemoteChanges, !isClosed {
            try loadRemoteChanges(sharing, operation)
        }
    }

    /// Like `loadRemoteChanges(_:)`, with the key in the error.
    @inline(__always)
    func loadRemoteChanges(_ operation: KVStoreError.Operation, about name: KeyName) throws(KVStoreError) {
        do throws(KVStoreError) {
            try loadRemoteChanges(operation)
        } catch {
            throw error.about(name)
        }
    }

    /// The same for a call that cannot throw: a failure is reported once, and what is known of the store stays.
    @inline(never)
    func loadRemoteChangesOrReport(_ operation: KVStoreError.Operation, about name: KeyName? = nil) {
        guard let sharing = handle.sharing, !isClosed else { return }
        do throws(KVStoreError) {
            try loadRemoteChanges(sharing, operation)
        } catch {
            if sharing.recordOutcome(failed: true) { options.report(.sharing(name.map(error.about) ?? error)) }
        }
    }

    @inline(never)
    private func loadRemoteChanges(_ sharing: EngineSharing, _ operation: KVStoreError.Operation) throws(KVStoreError) {
        try checkFork(operation)
        var remoteChanges: RemoteChanges?
        do throws(FileSystemError) {
            let word = try sharing.page.word()
            guard !sharing.isKnown(word) else { return }
            remoteChanges = try writer.withLock { (writer) throws(FileSystemError) -> RemoteChanges? in
                // Another thread may have done it meanwhile.
                let word = try sharing.page.word()
                if sharing.isKnown(word) { return RemoteChanges() }
                return try follow(sharing, to: EngineSharing.end(of: writer.log, in: word), &writer)
            }
        } catch {
            throw failure(error, operation)
        }
        if let remoteChanges {
            publish(remoteChanges, sharing)
        } else {
            try withLock(sharing, operation) { () throws(KVStoreError) in }
        }
        _ = sharing.recordOutcome(failed: false)
    }

    /// Calls `body` under the lock of the store, with all records of other processes applied, and publishes what it
    /// wrote.
    func withLock<Result: ~Copyable>(
        _ sharing: EngineSharing, _ operation: KVStoreError.Operation, _ body: () throws(KVStoreError) -> Result
    ) throws(KVStoreError) -> Result {
        try checkFork(operation)
        var remoteChanges = RemoteChanges()
        defer { publish(remoteChanges, sharing) }
        do throws(FileSystemError) {
            try sharing.lock.acquire(within: sharing.timeout)
        } catch {
            throw failure(error, operation)
        }
        defer { sharing.lock.release() }
        remoteChanges = try takeOver(sharing, operation)
        defer {
            do throws(FileSystemError) {
                try sharing.publish()
            } catch {
                // The record is in the log and stays acknowledged; the next call publishes it too.
                remoteChanges.issues.append(.sharing(failure(error, operation)))
            }
        }
        return try body()
    }

    private func failure(_ error: FileSystemError, _ operation: KVStoreError.Operation) -> KVStoreError {
        guard error.operation == .lock, error.errno == .resourceTemporarilyUnavailable else {
            return KVStoreError(error, operation, store: handle.name)
        }
        return KVStoreError(
            .unavailable(.inUse(processID: handle.otherProcess)), operation, store: handle.name, underlying: error)
    }

    private func publish(_ remoteChanges: RemoteChanges, _ sharing: EngineSharing) {
        for issue in remoteChanges.issues { options.report(issue) }
        guard sharing.watch.isOn, !remoteChanges.isEmpty else { return }
        sharing.watch.notify(remoteChanges.mayConcernAll ? nil : remoteChanges.names.map(\.string))
    }

    /// Calls a handler with the names that other processes have changed, until the observation goes.
    func observe(_ handler: @escaping SharingWatch.Handler) -> KVObservation? {
        guard let sharing = handle.sharing else { return nil }
        return sharing.watch.add(handler) { [weak self] in
            guard let self, sharing.mayHaveRemoteChanges else { return }
            loadRemoteChangesOrReport(.get)
        }
    }
}

// MARK: Observing all changes

extension KVEngine {
    /// Calls a handler with the names that this process or another one has changed, until the observation goes.
    func observeChanges(_ handler: @escaping ChangeObservers.Handler) -> KVObservation {
        let changes = changes
        let own = changes.add(handler)
        let remote = observe { names in changes.notify(names?.map(KeyName.init)) }
        // A write that missed the observers has released this lock already, so they read its value.
        writer.withLock { _ in }
        return KVObservation(own, remote) ?? own
    }
}

// MARK: Taking over

extension KVEngine {
    /// Begins to share a log that was just opened. The caller holds the lock of the store.
    static func share(_ opened: inout OpenedLog, at handle: StoreHandle) throws(KVStoreError) {
        guard let sharing = handle.sharing else { return }
        try prepare(&opened, sharing, store: handle.name)
        sharing.note(opened.log)
        if opened.obstacle == nil { handle.removalReserve.fill() }
        do throws(FileSystemError) {
            try sharing.publish()
        } catch {
            throw KVStoreError(error, .open, store: handle.name)
        }
    }

    /// Applies all records of other processes to the table. The caller holds the lock of the store.
    private func takeOver(
        _ sharing: EngineSharing, _ operation: KVStoreError.Operation
    ) throws(KVStoreError) -> RemoteChanges {
        do throws(FileSystemError) {
            let status = try handle.statusOfLog()
            let remoteChanges = try writer.withLock { (writer) throws(FileSystemError) -> RemoteChanges? in
                guard sharing.isOpen(status), writer.obstacle == nil else { return nil }
                if status.sizeInBytes == writer.log.end { return RemoteChanges() }
                // A process was killed before it published what it wrote, or the page is damaged.
                return try follow(sharing, to: status.sizeInBytes, &writer)
            }
            if let remoteChanges { return remoteChanges }
        } catch {
            throw failure(error, operation)
        }
        return try writer.withLock { (writer) throws(KVStoreError) in try reopen(sharing, &writer) }
    }

    /// Reads what was appended up to an end; nil if that is not what there is.
    private func follow(
        _ sharing: EngineSharing, to end: Int64, _ writer: inout Writer
    ) throws(FileSystemError) -> RemoteChanges? {
        guard writer.obstacle == nil, end > writer.log.end, end - writer.log.end < LogFollower.limit else { return nil }
        var follower = LogFollower(writer.log, to: end)
        guard let found = try follower.run() else { return nil }
        var remoteChanges = RemoteChanges()
        let isWatched = sharing.watch.isOn
        for (change, sequence) in found.records {
            remoteChanges.apply(change, sequence, to: &writer.table, isWatched: isWatched)
        }
        remoteChanges.collect(from: &writer.table)
        writer.log.follow(
            to: end, sequence: found.sequence, flushedSequence: found.flushedSequence, endsFlushed: found.endsFlushed)
        sharing.note(writer.log)
        return remoteChanges
    }

    /// Opens the log again: another one has replaced it, or its end has to be repaired. The caller holds the lock of
    /// the store.
    private func reopen(_ sharing: EngineSharing, _ writer: inout Writer) throws(KVStoreError) -> RemoteChanges {
        var opening = LogOpening(handle, table: ValueTable(), options: options)
        var opened = try opening.openForWriting()
        try Self.prepare(&opened, sharing, store: handle.name)
        var remoteChanges = RemoteChanges()
        remoteChanges.apply(opening.table.contents, to: &writer.table)
        remoteChanges.collect(from: &writer.table)
        remoteChanges.issues = opening.issues
        if writer.log.isPoisoned { opened.log.poison() }
        writer.log = opened.log
        writer.obstacle = opened.obstacle
        writer.compactionThreshold = 0
        sharing.note(writer.log)
        return remoteChanges
    }

    /// Makes a log that was opened fit for being shared, and notes which it is.
    private static func prepare(
        _ opened: inout OpenedLog, _ sharing: EngineSharing, store: String
    ) throws(KVStoreError) {
        sharing.noteFile(of: opened.log)
        guard opened.obstacle == nil else { return }
        do throws(FileSystemError) {
            let file = opened.log.file
            // A process that had the store for itself has reserved space behind the end.
            let size = try file.fileSystem.briefStatus(of: .descriptor(file.descriptor)).sizeInBytes
            if size != opened.log.end { try opened.log.trim() }
        } catch {
            throw KVStoreError(error, .open, store: store)
        }
    }
}

/// The engine's state for a shared store: lock, shared page and watch.
final class EngineSharing: Sendable {
    let lock: ProcessLock
    let page: SharedPage
    let watch: SharingWatch

    /// The longest time to wait for the lock.
    let timeout: Duration

    /// The value of ``SharedPage/word()`` while this process has read all changes.
    private let known = Atomic<UInt64>(0)

    /// The inode number of the open log, to detect that another log has replaced it; 0 if it is not known. Changed
    /// under the lock of the store.
    private let inode = Atomic<UInt64>(0)

    /// Whether the last attempt to read the changes of other processes failed.
    private let isFailing = Atomic(false)

    /// Acquires the store's lock, which the caller releases once the store is open, and opens the shared page.
    init(
        at directory: Descriptor, on fileSystem: any POSIXFileSystem, _ options: FileKVStore.Options
    ) throws(FileSystemError) {
        let lock = ProcessLock(at: directory, on: fileSystem)
        self.lock = lock
        timeout = options.lockTimeout
        watch = SharingWatch(interval: options.pollingInterval)
        do throws(FileSystemError) {
            try lock.acquireToOpen(within: options.lockTimeout)
            do throws(FileSystemError) {
                page = try SharedPage(at: directory, on: fileSystem, options.processes)
            } catch {
                lock.release()
                throw error
            }
        } catch {
            lock.close()
            throw error
        }
    }

    /// Closes a forked child's descriptors, and changes nothing.
    func abandon() {
        page.abandon()
        lock.close()
    }

    /// Frees this process's slot in the shared page, and releases the lock if held.
    func close() {
        page.close()
        lock.close()
    }
}

// MARK: The state of the log

extension EngineSharing {
    /// Whether something may have been written that this process has not read.
    @inline(__always)
    var mayHaveRemoteChanges: Bool { !page.isKnownToHold(known.load(ordering: .acquiring)) }

    /// Whether a word is that of the state that this process has read.
    func isKnown(_ word: UInt64) -> Bool { word == known.load(ordering: .acquiring) }

    /// The log-state word: the end of the log XOR the first eight bytes of its file ID, so that no two logs share one.
    private static func word(_ log: borrowing AppendLog, end: Int64) -> UInt64 { tag(log) ^ UInt64(bitPattern: end) }

    /// The end of the log that a word states; meaningless if the word is that of another log.
    static func end(of log: borrowing AppendLog, in word: UInt64) -> Int64 { Int64(bitPattern: tag(log) ^ word) }

    private static func tag(_ log: borrowing AppendLog) -> UInt64 {
        log.file.header.fileID.bytes.withUnsafeBytes { $0.integer(at: 0, as: UInt64.self) }
    }

    /// Records that the table contains the changes up to the end of the log.
    func note(_ log: borrowing AppendLog) { known.store(Self.word(log, end: log.end), ordering: .releasing) }

    /// Publishes the state that was recorded last. The caller holds the lock of the store.
    func publish() throws(FileSystemError) { try page.publish(known.load(ordering: .acquiring)) }

    /// Whether a file is the log that this process has open.
    func isOpen(_ status: BriefFileStatus) -> Bool { status.inode == inode.load(ordering: .relaxed) }

    /// Records the inode of the log.
    func noteFile(of log: borrowing AppendLog) {
        do throws(FileSystemError) {
            let file = log.file
            inode.store(try file.fileSystem.briefStatus(of: .descriptor(file.descriptor)).inode, ordering: .relaxed)
        } catch _ {
            // The next call that acquires the lock then takes the log for another one, and opens it again.
            inode.store(0, ordering: .relaxed)
        }
    }

    /// Records whether reading the changes of other processes failed; true for the first failure after a success.
    func recordOutcome(failed: Bool) -> Bool {
        guard isFailing.load(ordering: .relaxed) != failed else { return false }
        return isFailing.exchange(failed, ordering: .relaxed) != failed && failed
    }
}
