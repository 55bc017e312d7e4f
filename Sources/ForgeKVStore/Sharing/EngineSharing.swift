import ForgeFileSystem
import Synchronization

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
