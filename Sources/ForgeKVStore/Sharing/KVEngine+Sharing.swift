import ForgeFileSystem
import Synchronization
import SystemPackage

/// A store that several processes have open.
///
/// A write holds the lock of the store while it reads the records of other processes, appends its own and publishes the
/// new state. A read takes no lock of the store: it follows what was published, also into a log that has replaced the
/// open one. Only damage, or a page that another program has changed, makes it acquire the lock. Lock order: the lock
/// of the store, `flushing`, `writer`.
extension KVEngine {
    /// The commit step of a shared store: calls `body` under the lock of the store, with all records of other processes
    /// applied, and publishes what it wrote.
    @inline(never)
    func writeShared<Result: ~Copyable & Sendable>(
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
        if let sharing, sharing.mayHaveRemoteChanges, !isClosed {
            try loadRemoteChanges(sharing, operation, within: sharing.timeout)
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

    /// The same for a call that cannot throw and waits a millisecond at most: a failure is reported once, and what is
    /// known of the store stays. If another process holds the lock, a background job waits for it.
    @inline(never)
    func loadRemoteChangesOrReport(_ operation: KVStoreError.Operation, about name: KeyName? = nil) {
        guard let sharing, !isClosed else { return }
        do throws(KVStoreError) {
            try loadRemoteChanges(sharing, operation, within: sharing.isRetrying ? .zero : Self.patienceOfGet)
        } catch {
            if sharing.recordOutcome(failed: true) { options.report(.sharing(name.map(error.about) ?? error)) }
            if error.isInUse { retryInBackground(sharing) }
        }
    }

    /// How long a call that cannot throw waits for the lock of the store.
    private static let patienceOfGet = Duration.milliseconds(1)

    private func retryInBackground(_ sharing: EngineSharing) {
        guard options.compactsInBackground, sharing.beginRetry() else { return }
        inBackground { engine in
            defer { sharing.endRetry() }
            do throws(KVStoreError) {
                try engine.loadRemoteChanges(sharing, .get, within: sharing.timeout)
            } catch {}  // It was reported, and later calls try again.
        }
    }

    /// Reads what other processes have published: without the lock of the store, unless that fails.
    @inline(never)
    private func loadRemoteChanges(
        _ sharing: EngineSharing, _ operation: KVStoreError.Operation, within timeout: Duration
    ) throws(KVStoreError) {
        try checkFork(operation)
        var remoteChanges: RemoteChanges?
        do throws(FileSystemError) {
            let word = try sharing.page.word()
            guard !sharing.isKnown(word) else { return }
            remoteChanges = try writer.withLock { (writer) throws(FileSystemError) -> RemoteChanges? in
                // Another thread may have done it meanwhile.
                let word = try sharing.page.word()
                if sharing.isKnown(word) { return RemoteChanges() }
                guard sharing.mayBeRead(word) else { return nil }
                if let followed = try follow(sharing, to: EngineSharing.end(of: writer.log, in: word), &writer) {
                    return followed
                }
                return try adopt(sharing, &writer)
            }
        } catch {
            throw failure(error, operation)
        }
        if let remoteChanges {
            publish(remoteChanges, sharing)
        } else {
            do throws(KVStoreError) {
                try withLock(sharing, operation, within: timeout) { () throws(KVStoreError) in }
            } catch  where error.code == .unavailable(.closed) {
                // A closed store keeps its last state.
                return
            }
        }
        _ = sharing.recordOutcome(failed: false)
    }

    /// Reads the log that has replaced the open one, without the lock of the store; nil unless it is intact up to what
    /// was published.
    ///
    /// The word and the log are read again if a process compacts the log between the two. A process that is stopped
    /// between replacing the log and publishing it has put all that the word states into the log in place.
    private func adopt(_ sharing: EngineSharing, _ writer: inout Writer) throws(FileSystemError) -> RemoteChanges? {
        guard writer.obstacle == nil else { return nil }
        var word = try sharing.page.word()
        for _ in 0..<Self.mostAdoptions {
            if let followed = try followReplacement(sharing, word, &writer) {
                sharing.noteSeen(word)
                return followed
            }
            var opening = LogOpening(handle, table: ValueTable(), options: options)
            let found = try opening.openPublished(word)
            let present = try sharing.page.word()
            guard present == word else {
                word = present
                continue
            }
            // An earlier state than that of this process: it has written more, which it could not publish.
            guard let found, found.sequence >= writer.log.sequence else { break }
            let remoteChanges = take(OpenedLog(log: found), opening.table, sharing, &writer)
            sharing.noteSeen(word)
            return remoteChanges
        }
        sharing.noteUnreadable(word)
        return nil
    }

    /// How many times a log is read that other processes replace meanwhile.
    private static let mostAdoptions = 3

    /// Calls `body` under the lock of the store, with all records of other processes applied, and publishes what it
    /// wrote.
    ///
    /// It waits for the lock as long as the store's timeout unless `timeout` is shorter. Once the store is being closed,
    /// it throws `.unavailable(.closed)`, but for the calls of the closing itself (`isClosing`).
    func withLock<Result: ~Copyable>(
        _ sharing: EngineSharing, _ operation: KVStoreError.Operation, within timeout: Duration? = nil,
        isClosing: Bool = false, _ body: () throws(KVStoreError) -> Result
    ) throws(KVStoreError) -> Result {
        try checkFork(operation)
        var remoteChanges = RemoteChanges()
        defer { publish(remoteChanges, sharing) }
        do throws(FileSystemError) {
            try sharing.lock.acquire(within: timeout.map { min($0, sharing.timeout) } ?? sharing.timeout)
        } catch {
            throw failure(error, operation)
        }
        defer { sharing.lock.release() }
        // A call that waited while the store was closed would put this process into the shared page again.
        let life = life.load(ordering: .acquiring)
        guard life == .open || (life == .leaving && isClosing) else {
            throw KVStoreError(.unavailable(.closed), operation, store: handle.name)
        }
        remoteChanges = try takeOver(sharing, operation)
        sharing.noteSeen()
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
        if changes.hasSubscribers { changes.wake() }
    }
}

// MARK: Reporting changes

extension KVEngine {
    /// Subscribes to the changes of this process and, while there is a subscriber, of others.
    func subscribe(to scope: KVScope) -> KVChanges {
        let watch = fork.isForkedChild ? nil : sharing?.watch
        let observation = watch?.start { [weak self] in self?.lookForRemoteChanges() ?? .nothing }
        return changes.changes(in: scope, retaining: observation) { name in
            if sharing?.mayHaveRemoteChanges == true { loadRemoteChangesOrReport(.get) }
            // A write that missed the subscriber has released this lock already.
            writer.withLock { _ in }
            return cell(of: KeyName(name)).map { KVEntry($0) }
        }
    }

    /// Reads what other processes have published.
    private func lookForRemoteChanges() -> SharingWatch.Outcome {
        guard let sharing, !isClosed else { return .nothing }
        if !sharing.isRegistered {
            // Publishing repairs the page. No signal reaches this process otherwise.
            do throws(KVStoreError) {
                try withLock(sharing, .get, within: Self.patienceOfGet) { () throws(KVStoreError) in }
            } catch {
                return .failure
            }
        }
        if sharing.isUpToDate { return .nothing }
        loadRemoteChangesOrReport(.get)
        return sharing.isUpToDate ? .changes : .failure
    }
}

// MARK: Taking over

extension KVEngine {
    /// Begins to share a log that was just opened. The caller holds the lock of the store.
    static func share(_ opened: inout OpenedLog, at handle: StoreHandle) throws(KVStoreError) {
        guard let sharing = handle.sharing else { return }
        try prepare(&opened, store: handle.name)
        sharing.noteFile(of: opened.log)
        sharing.note(opened.log)
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
                guard writer.obstacle == nil else { return nil }
                guard sharing.isOpen(status) else { return try followReplacement(sharing, nil, &writer) }
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

    /// Reads the records that were appended up to an end; nil if the log does not contain them.
    private func follow(
        _ sharing: EngineSharing, to end: Int64, _ writer: inout Writer
    ) throws(FileSystemError) -> RemoteChanges? {
        guard writer.obstacle == nil, end > writer.log.end, end - writer.log.end < LogFollower.limit else { return nil }
        var follower = LogFollower(writer.log.file, writer.log.end..<end, after: writer.log.sequence)
        guard try follower.isStrict() else { return nil }
        let remoteChanges = try apply(&follower, &writer)
        writer.log.follow(
            to: end, sequence: follower.sequence, flushedSequence: follower.flushedSequence,
            endsFlushed: follower.endsFlushed)
        sharing.note(writer.log)
        sharing.noteSeen()
        return remoteChanges
    }

    /// Continues with the log that has replaced the open one by compaction, of which only the records are read that are
    /// new to this process; nil if that is not what has happened. `word` is what was published, for a call without the
    /// lock of the store.
    private func followReplacement(
        _ sharing: EngineSharing, _ word: UInt64?, _ writer: inout Writer
    ) throws(FileSystemError) -> RemoteChanges? {
        let replacement = try sharing.page.replacement()
        guard writer.obstacle == nil, EngineSharing.isReplaced(writer.log, in: replacement),
            let (file, size) = try LogOpening.openReplacement(of: handle),
            EngineSharing.isReplacing(file, in: replacement)
        else { return nil }
        let end = word.map { EngineSharing.end(of: file.header, in: $0) } ?? size
        guard replacement.retainedEnd >= Int64(LogHeader.size), end <= size,
            var follower = try LogFollower.strict(
                file, replacement.starts(after: writer.log.end), end, after: writer.log.sequence)
        else { return nil }
        // The log may have been replaced again before it was opened.
        if let word, try sharing.page.word() != word { return nil }
        let remoteChanges = try apply(&follower, &writer)
        let log = AppendLog(
            file, end: end, sequence: follower.sequence,
            flushedSequence: follower.endsFlushed ? follower.sequence : follower.flushedSequence,
            endsFlushed: follower.endsFlushed, space: LogSpace(options.space))
        goOn(with: log, sharing, &writer)
        return remoteChanges
    }

    /// Uses a log in place of the open one, whose file is closed outside the caller's locks: the last process that closes
    /// it frees its blocks, which takes milliseconds for a large one.
    private func goOn(with log: consuming AppendLog, _ sharing: EngineSharing, _ writer: inout Writer) {
        let isPoisoned = writer.log.isPoisoned
        sharing.keepReplaced(writer.log.file)
        writer.log = log
        if isPoisoned { writer.log.poison() }
        writer.compactionThreshold = 0
        sharing.noteFile(of: writer.log)
        sharing.note(writer.log)
        // Nothing here refers to the old file any more, so the job closes it.
        inBackground { _ in sharing.releaseReplaced() }
    }

    private func apply(
        _ follower: inout LogFollower, _ writer: inout Writer
    ) throws(FileSystemError) -> RemoteChanges {
        var remoteChanges = RemoteChanges()
        try follower.forEach { record, bytes in
            remoteChanges.apply(record, bytes, to: &writer.table, reportingTo: changes)
        }
        remoteChanges.collect(from: &writer.table)
        return remoteChanges
    }

    /// Opens the log again: another one has replaced it, or its end has to be repaired. The caller holds the lock of
    /// the store.
    private func reopen(_ sharing: EngineSharing, _ writer: inout Writer) throws(KVStoreError) -> RemoteChanges {
        var opening = LogOpening(handle, table: ValueTable(), options: options)
        var opened = try opening.openForWriting()
        try Self.prepare(&opened, store: handle.name)
        var remoteChanges = take(opened, opening.table, sharing, &writer)
        remoteChanges.issues = opening.issues
        return remoteChanges
    }

    /// Continues with a log that was just read into a table, in the place of the open one.
    private func take(
        _ opened: consuming OpenedLog, _ table: borrowing TableWriter, _ sharing: EngineSharing,
        _ writer: inout Writer
    ) -> RemoteChanges {
        var remoteChanges = RemoteChanges()
        remoteChanges.apply(table.contents, to: &writer.table, reportingTo: changes)
        remoteChanges.collect(from: &writer.table)
        writer.obstacle = opened.obstacle
        goOn(with: opened.log, sharing, &writer)
        return remoteChanges
    }

    /// Trims the reserved space of a log that was opened, which a shared log must not have.
    private static func prepare(_ opened: inout OpenedLog, store: String) throws(KVStoreError) {
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

    /// The files of replaced logs that no job has closed yet.
    private let replaced = Mutex<[LogFile]>([])

    /// The value of ``SharedPage/word()`` while this process has read all changes.
    private let known = Atomic<UInt64>(0)

    /// The word that the page had when this process last read or published a state. While a call of this process has
    /// appended records and not yet published them, ``known`` is ahead of it.
    private let seen = Atomic<UInt64>(0)

    /// A word whose state could not be read without the lock of the store; 0, which no word is, for none.
    private let unreadable = Atomic<UInt64>(0)

    /// Whether a background job waits for the lock of the store, to read what could not be read without.
    private let retrying = Atomic(false)

    /// The inode number of the open log, to detect that another log has replaced it; 0 if it is not known. Changed
    /// under the engine's `writer`.
    private let inode = Atomic<UInt64>(0)

    /// Whether a compaction was last left to another process.
    private let hasYielded = Atomic(false)

    /// Whether the last attempt to read the changes of other processes failed.
    private let isFailing = Atomic(false)

    /// Acquires the store's lock, which the caller releases once the store is open, and opens the shared page.
    init(
        at directory: Descriptor, on fileSystem: any POSIXFileSystem, _ options: FileKVStore.Options
    ) throws(FileSystemError) {
        let lock = ProcessLock(at: directory, on: fileSystem)
        self.lock = lock
        timeout = options.lockTimeout
        do throws(FileSystemError) {
            try lock.acquireToOpen(within: options.lockTimeout)
            do throws(FileSystemError) {
                page = try SharedPage(at: directory, on: fileSystem, options.processes)
                watch = SharingWatch(page, pollingInterval: options.pollingInterval)
            } catch {
                lock.release()
                throw error
            }
        } catch {
            lock.close()
            throw error
        }
    }

    /// Takes this process out of the shared page, once its calls in flight have ended; `body` is called before.
    ///
    /// It is done under the lock of the store, or without if another process holds that too long: the slot is this
    /// process's own.
    func leave(_ body: () -> Void) {
        watch.stop()
        lock.drain(within: min(timeout, Self.patienceOfLeaving)) {
            body()
            page.leave()
        }
    }

    private static let patienceOfLeaving = Duration.milliseconds(100)

    /// Closes the descriptors, and changes nothing.
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

    /// Whether this process has read all that was published, as far as it can be told.
    var isUpToDate: Bool {
        do throws(FileSystemError) { return isKnown(try page.word()) } catch { return false }
    }

    /// Whether other processes see in the page that this one has the store open.
    var isRegistered: Bool {
        do throws(FileSystemError) { return try page.isWhole() } catch { return false }
    }

    /// Whether this process has read all that a word of the page states.
    func isKnown(_ word: UInt64) -> Bool {
        word == known.load(ordering: .acquiring) || word == seen.load(ordering: .acquiring)
    }

    /// Whether the state of a word may be read without the lock of the store: it was not tried in vain.
    func mayBeRead(_ word: UInt64) -> Bool { word != unreadable.load(ordering: .relaxed) }

    /// The log-state word: the end of the log XOR the first eight bytes of its file ID, so that no two logs share one.
    private static func word(_ log: borrowing AppendLog, end: Int64) -> UInt64 { tag(log) ^ UInt64(bitPattern: end) }

    /// The end of the log that a word states; meaningless if the word is that of another log.
    static func end(of log: borrowing AppendLog, in word: UInt64) -> Int64 { end(of: log.file.header, in: word) }

    static func end(of header: LogHeader, in word: UInt64) -> Int64 { Int64(bitPattern: tag(header) ^ word) }

    private static func tag(_ log: borrowing AppendLog) -> UInt64 { tag(log.file.header) }

    private static func tag(_ header: LogHeader) -> UInt64 {
        header.fileID.bytes.span.integer(at: 0, as: UInt64.self)
    }

    /// Whether a log is the one that was replaced, or the one that has replaced it.
    static func isReplaced(_ log: borrowing AppendLog, in replacement: SharedPageContent.Replacement) -> Bool {
        replacement.oldLog == tag(log)
    }

    static func isReplacing(_ log: LogFile, in replacement: SharedPageContent.Replacement) -> Bool {
        replacement.newLog == tag(log.header)
    }

    /// Publishes that a log is about to replace another one, where the values end that it takes from that, and how much
    /// further on it has the later records. The caller holds the lock of the store.
    func announce(
        _ new: LogHeader, inPlaceOf old: LogHeader, retainedEnd: Int64, shift: Int64
    ) throws(FileSystemError) {
        try page.announce(
            SharedPageContent.Replacement(
                newLog: Self.tag(new), oldLog: Self.tag(old), retainedEnd: retainedEnd, shift: shift))
    }

    /// Keeps the file of a log that was replaced, until ``releaseReplaced()``.
    func keepReplaced(_ file: LogFile) { replaced.withLock { $0.append(file) } }

    /// Closes the files that were kept, unless they are still in use.
    func releaseReplaced() {
        // They are closed after the lock is released.
        _ = replaced.withLock { files in
            let taken = files
            files = []
            return taken
        }
    }

    /// Records that the table contains the changes up to the end of the log.
    func note(_ log: borrowing AppendLog) { known.store(Self.word(log, end: log.end), ordering: .releasing) }

    /// Records that the table contains what a word of the page states; by default that of the state recorded last.
    func noteSeen(_ word: UInt64? = nil) {
        seen.store(word ?? known.load(ordering: .acquiring), ordering: .releasing)
    }

    /// Records that the state of a word could not be read without the lock of the store.
    func noteUnreadable(_ word: UInt64) { unreadable.store(word, ordering: .relaxed) }

    /// Publishes the state that was recorded last. The caller holds the lock of the store.
    func publish() throws(FileSystemError) {
        try page.publish(known.load(ordering: .acquiring))
        noteSeen()
    }

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

    /// Whether this process is to compact the log: no other one does, or the last compaction was left to it already, since
    /// it may be stopped.
    func claimCompaction() -> Bool {
        do throws(FileSystemError) {
            let isClaimed = try page.claimCompaction()
            return hasYielded.exchange(!isClaimed, ordering: .relaxed) || isClaimed
        } catch {
            return true  // The compaction reports its own error.
        }
    }

    func endCompaction() {
        hasYielded.store(false, ordering: .relaxed)
        do throws(FileSystemError) { try page.endCompaction() } catch _ {}  // The next one asks for this process.
    }

    var isRetrying: Bool { retrying.load(ordering: .relaxed) }

    /// Returns whether the caller is to begin a background job that tries to read again.
    func beginRetry() -> Bool { !retrying.exchange(true, ordering: .relaxed) }

    func endRetry() { retrying.store(false, ordering: .relaxed) }

    /// Records whether reading the changes of other processes failed; true for the first failure after a success.
    func recordOutcome(failed: Bool) -> Bool {
        guard isFailing.load(ordering: .relaxed) != failed else { return false }
        return isFailing.exchange(failed, ordering: .relaxed) != failed && failed
    }
}
