import ForgeFileSystem
import Synchronization
import SystemPackage

/// A store that other processes have open too.
///
/// Who writes has the lock of the store from before it looks whether others have written until after it has told that it
/// has. Who reads takes no lock that another process could have, unless another log has taken the place of the one that
/// is open. Locks are taken in this order: that of the store, `flushing`, `writer`.
extension KVEngine {
    /// Calls `body` with the writer; in a store that is shared while nobody else writes, and everything having been read that
    /// others have written.
    @inline(__always)
    func writing<Result: ~Copyable & Sendable>(
        _ operation: KVStoreError.Operation, _ body: (inout Writer) throws(KVStoreError) -> Result
    ) throws(KVStoreError) -> Result {
        guard let sharing = place.sharing else {
            return try writer.withLock { (writer) throws(KVStoreError) in try body(&writer) }
        }
        return try writing(sharing, operation, body)
    }

    @inline(never)
    private func writing<Result: ~Copyable & Sendable>(
        _ sharing: EngineSharing, _ operation: KVStoreError.Operation,
        _ body: (inout Writer) throws(KVStoreError) -> Result
    ) throws(KVStoreError) -> Result {
        try withLock(sharing, operation) { () throws(KVStoreError) -> Result in
            try writer.withLock { (writer) throws(KVStoreError) -> Result in
                defer { sharing.note(writer.log) }
                return try body(&writer)
            }
        }
    }

    /// Reads what other processes have written.
    @inline(__always)
    func catchUp(_ operation: KVStoreError.Operation) throws(KVStoreError) {
        if let sharing = place.sharing, sharing.mayHaveNews { try catchUp(sharing, operation) }
    }

    /// The same for a call that concerns a key.
    @inline(__always)
    func catchUp(_ operation: KVStoreError.Operation, about name: KeyName) throws(KVStoreError) {
        do throws(KVStoreError) {
            try catchUp(operation)
        } catch {
            throw error.about(name)
        }
    }

    /// The same for a call that cannot throw: a failure is reported once, and what is known of the store stays.
    @inline(never)
    func catchUpOrReport(_ operation: KVStoreError.Operation, about name: KeyName? = nil) {
        guard let sharing = place.sharing else { return }
        do throws(KVStoreError) {
            try catchUp(sharing, operation)
        } catch {
            if sharing.isNews(failed: true) { options.report(.sharing(name.map(error.about) ?? error)) }
        }
    }

    @inline(never)
    private func catchUp(_ sharing: EngineSharing, _ operation: KVStoreError.Operation) throws(KVStoreError) {
        try checkFork(operation)
        var news: SharedNews?
        do throws(FileSystemError) {
            let word = try sharing.page.word()
            guard !sharing.isKnown(word) else { return }
            news = try writer.withLock { (writer) throws(FileSystemError) -> SharedNews? in
                // Another thread may have done it meanwhile.
                let word = try sharing.page.word()
                if sharing.isKnown(word) { return SharedNews() }
                return try follow(sharing, to: EngineSharing.end(of: writer.log, in: word), &writer)
            }
        } catch {
            throw failure(error, operation)
        }
        if let news {
            tell(news, sharing)
        } else {
            try withLock(sharing, operation) { () throws(KVStoreError) in }
        }
        _ = sharing.isNews(failed: false)
    }

    /// Calls `body` while no other process writes, everything having been read that others have written; what `body` has
    /// written is told then.
    func withLock<Result: ~Copyable>(
        _ sharing: EngineSharing, _ operation: KVStoreError.Operation, _ body: () throws(KVStoreError) -> Result
    ) throws(KVStoreError) -> Result {
        try checkFork(operation)
        var news = SharedNews()
        defer { tell(news, sharing) }
        do throws(FileSystemError) {
            try sharing.lock.take(within: sharing.timeout)
        } catch {
            throw failure(error, operation)
        }
        defer { sharing.lock.giveBack() }
        news = try takeOver(sharing, operation)
        defer {
            do throws(FileSystemError) {
                try sharing.tell()
            } catch {
                // What was written is in the log and stays acknowledged; the next call tells of it too.
                news.issues.append(.sharing(failure(error, operation)))
            }
        }
        return try body()
    }

    private func failure(_ error: FileSystemError, _ operation: KVStoreError.Operation) -> KVStoreError {
        guard error.operation == .lock, error.errno == .resourceTemporarilyUnavailable else {
            return KVStoreError(error, operation, store: place.name)
        }
        return KVStoreError(
            .unavailable(.inUse(processID: place.holder)), operation, store: place.name, underlying: error)
    }

    private func tell(_ news: SharedNews, _ sharing: EngineSharing) {
        for issue in news.issues { options.report(issue) }
        guard sharing.watch.isOn, !news.isEmpty else { return }
        sharing.watch.tell(news.mayConcernAll ? nil : news.names.map(\.string))
    }

    /// Calls a handler with the names that other processes have changed, until the observation goes.
    func observe(_ handler: @escaping SharingWatch.Handler) -> KVObservation? {
        guard let sharing = place.sharing else { return nil }
        return sharing.watch.add(handler) { [weak self] in
            guard let self, sharing.mayHaveNews else { return }
            catchUpOrReport(.get)
        }
    }
}

// MARK: Taking over

extension KVEngine {
    /// Begins to share a log that was just opened. For who has the lock of the store.
    static func share(_ opened: inout OpenedLog, at place: StorePlace) throws(KVStoreError) {
        guard let sharing = place.sharing else { return }
        try prepare(&opened, sharing, store: place.name)
        sharing.note(opened.log)
        do throws(FileSystemError) {
            try sharing.tell()
        } catch {
            throw KVStoreError(error, .open, store: place.name)
        }
    }

    /// Brings the table up to what the log holds. For who has the lock of the store.
    private func takeOver(
        _ sharing: EngineSharing, _ operation: KVStoreError.Operation
    ) throws(KVStoreError) -> SharedNews {
        do throws(FileSystemError) {
            let status = try place.fileSystem.status(.logName, at: place.directory, followsSymbolicLinks: false)
            let news = try writer.withLock { (writer) throws(FileSystemError) -> SharedNews? in
                guard sharing.isOpen(status), writer.obstacle == nil else { return nil }
                if status.sizeInBytes == writer.log.end { return SharedNews() }
                // A process was killed before it had told of what it wrote; or only told in a way that was damaged.
                return try follow(sharing, to: status.sizeInBytes, &writer)
            }
            if let news { return news }
        } catch {
            throw failure(error, operation)
        }
        return try writer.withLock { (writer) throws(KVStoreError) in try reopen(sharing, &writer) }
    }

    /// Reads what was appended up to an end; nil if that is not what there is.
    private func follow(
        _ sharing: EngineSharing, to end: Int64, _ writer: inout Writer
    ) throws(FileSystemError) -> SharedNews? {
        guard writer.obstacle == nil, end > writer.log.end, end - writer.log.end < LogFollower.limit else { return nil }
        var follower = LogFollower(writer.log, to: end)
        guard let found = try follower.run() else { return nil }
        var news = SharedNews()
        let isWatched = sharing.watch.isOn
        for (change, sequence) in found.records {
            news.apply(change, sequence, to: &writer.table, isWatched: isWatched)
        }
        news.collect(from: &writer.table)
        writer.log.follow(
            to: end, sequence: found.sequence, flushedSequence: found.flushedSequence, endsFlushed: found.endsFlushed)
        sharing.note(writer.log)
        return news
    }

    /// Opens the log anew: another one has taken its place, or what stands at its end has to be repaired. For who has the
    /// lock of the store.
    private func reopen(_ sharing: EngineSharing, _ writer: inout Writer) throws(KVStoreError) -> SharedNews {
        var opening = LogOpening(place, table: ValueTable(), options: options)
        var opened = try opening.run()
        try Self.prepare(&opened, sharing, store: place.name)
        var news = SharedNews()
        news.apply(opening.table.contents, to: &writer.table)
        news.collect(from: &writer.table)
        news.issues = opening.issues
        if writer.log.isPoisoned { opened.log.poison() }
        writer.log = opened.log
        writer.obstacle = opened.obstacle
        writer.rewritingThreshold = 0
        sharing.note(writer.log)
        return news
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
            let size = try file.fileSystem.status(of: .descriptor(file.descriptor)).sizeInBytes
            if size != opened.log.end { try opened.log.trim() }
        } catch {
            throw KVStoreError(error, .open, store: store)
        }
    }
}
