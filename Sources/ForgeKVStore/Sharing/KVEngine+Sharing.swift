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
