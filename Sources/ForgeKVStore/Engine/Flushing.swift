import Dispatch
import ForgeFileSystem
import Foundation
import Synchronization
import SystemPackage

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
                guard sharing == nil else { return }
                own = try handle.fileSystem.briefStatus(of: .descriptor(log.descriptor))
            } catch  where error.errno == .noSuchFileOrDirectory {
                throw KVStoreError(.noStore, operation, store: name, underlying: error)
            } catch {
                throw KVStoreError(error, operation, store: name)
            }
            if named.inode == own.inode, named.sizeInBytes >= end { return }
            // This process may have replaced or emptied it meanwhile.
            let isCurrent = writer.withLock { $0.log.file === log && $0.log.restartCount == restarts }
            guard isCurrent else { continue }
            guard named.inode == own.inode else { throw KVStoreError(.noStore, operation, store: name) }
            // Records that are appended now would follow a gap.
            writer.withLock { $0.log.poison() }
            throw KVStoreError(.damaged, operation, store: name)
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
                throw KVStoreError(.durabilityUnknown, .synchronize, store: name)
            }
            return writer.log.startFlush(directory: handle.directory)
        }
        guard let flush else { return }
        do throws(FileSystemError) {
            try flush.run()
        } catch {
            writer.withLock { $0.log.poison() }
            throw KVStoreError(.durabilityUnknown, .synchronize, store: name, underlying: error)
        }
        writer.withLock { $0.log.didFlush(flush) }
    }
}

/// Group commit: one thread, the leader, flushes on behalf of every thread that waits.
///
/// A flush that ends wakes all threads whose writes it covered, and hands the lead to one of the others. Behind a plain
/// lock the threads would pass one by one, and each would pay for a flush of its own.
final class GroupCommit: Sendable {
    /// How many times a new leader yields, so that threads woken by the last flush can write and join this one.
    private static let yieldLimit = 32

    private let state = Mutex(GroupCommitState<Waiter>())

    /// A thread that waits for an outcome.
    private final class Waiter: Sendable {
        private let semaphore = DispatchSemaphore(value: 0)
        private let leads = Atomic(false)

        func wake(asLeader isLeader: Bool) {
            leads.store(isLeader, ordering: .relaxed)
            semaphore.signal()
        }

        /// Returns whether the thread has become the leader.
        func wait() -> Bool {
            semaphore.wait()
            return leads.load(ordering: .relaxed)
        }
    }

    /// How many threads wait.
    var waiterCount: Int { state.withLock { $0.waiterCount } }

    /// Waits until this thread leads, or what it wants is done.
    ///
    /// - Parameters:
    ///   - goal: The sequence number up to which everything is to be flushed.
    ///   - isDone: Whether that has happened; called without a lock of this object.
    /// - Returns: Whether this thread leads; it must call ``end(flushed:)`` then.
    func begin(_ goal: UInt64, isDone: () -> Bool) -> Bool {
        while !isDone() {
            let waiter = Waiter()
            guard state.withLock({ $0.begin(goal, waiter) }) || waiter.wait() else { continue }
            // The goal may have been reached before the lead was.
            guard !isDone() else {
                end(flushed: goal)
                return false
            }
            yieldToWriters()
            return true
        }
        return false
    }

    private func yieldToWriters() {
        for _ in 0..<Self.yieldLimit where state.withLock({ $0.expectsMore }) { sched_yield() }
    }

    /// Ends the lead, wakes every waiter whose goal was reached, and hands the lead to one of the others.
    func end(flushed: UInt64) {
        let outcome = state.withLock { $0.end(flushed: flushed) }
        for waiter in outcome.served { waiter.wake(asLeader: false) }
        outcome.leader?.wake(asLeader: true)
    }
}

/// The states of a ``GroupCommit``, without threads.
///
/// Invariant: while a thread waits, there is a leader. The lead passes from one thread to the next without a gap, so no
/// waiter is forgotten when another one has nothing left to do.
struct GroupCommitState<Waiter> {
    private var isLed = false
    private var waiting: [(goal: UInt64, waiter: Waiter)] = []

    /// How many threads took part in the last flush; most of them will write and flush again.
    private var lastCount = 0

    var waiterCount: Int { waiting.count }

    /// Whether more threads are expected to join the flush that is about to begin.
    var expectsMore: Bool { waiting.count + 1 < lastCount }

    /// Returns whether the caller leads; otherwise it waits.
    mutating func begin(_ goal: UInt64, _ waiter: Waiter) -> Bool {
        guard isLed else {
            isLed = true
            return true
        }
        waiting.append((goal, waiter))
        return false
    }

    /// Ends the lead. The waiters that are served check for themselves whether they are done; `leader` has the lead.
    mutating func end(flushed: UInt64) -> (served: [Waiter], leader: Waiter?) {
        lastCount = waiting.count + 1
        let served = waiting.filter { $0.goal <= flushed }.map(\.waiter)
        waiting.removeAll { $0.goal <= flushed }
        isLed = !waiting.isEmpty
        return (served, waiting.isEmpty ? nil : waiting.removeFirst().waiter)
    }
}
