import ForgeFileSystem
import Synchronization

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
