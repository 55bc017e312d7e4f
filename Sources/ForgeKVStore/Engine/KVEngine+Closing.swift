import Dispatch
import ForgeFileSystem
import Foundation
import Logging
import Synchronization
import SystemPackage

extension KVEngine {
    /// Flushes and trims the log, and gives the store back to other processes, also if flushing fails.
    ///
    /// A write beside this call either is flushed as well or throws.
    func close() throws(KVStoreError) {
        try checkFork(.close)
        let inUse = KVStoreError(
            .unavailable(.inUse(processID: options.processes.own.id)), .close, store: name)
        // It would wait for itself, as would a handler of issues that is called by the closing.
        guard BackgroundJob.current == nil else { throw inUse }
        try closing.run(reentered: inUse) { () throws(KVStoreError) in try closeOnce() }
    }

    private func closeOnce() throws(KVStoreError) {
        // Calls in flight in a shared store end before; later ones see that it is being closed.
        if let sharing {
            sharing.lock.drain(within: .zero) { enter(.leaving) }
        } else {
            enter(.leaving)
        }
        background.wait()
        defer {
            // A job that begins now may not reserve space in a log that another process writes to.
            writer.withLock { $0.log.releaseSpace() }
            handle.release { enter(.left) }
        }
        let isWritable = try writer.withLock { (writer) throws(KVStoreError) in
            guard !writer.log.isPoisoned else { throw KVStoreError(.durabilityUnknown, .close, store: name) }
            return writer.isWritable
        }
        guard isWritable else { return }
        // Flushing and trimming would succeed in a directory that was removed, and hide that the log was truncated.
        try checkReachability(.close)
        if let sharing {
            try close(sharing)
        } else {
            try withCompactionLock { (issues) throws(KVStoreError) in try closeLog(&issues) }
        }
    }

    private func enter(_ life: Life) {
        writer.withLock { _ in self.life.store(life, ordering: .releasing) }
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

    /// Appends a marker that everything before it has reached the device: damage to the last records could be taken
    /// for a torn tail otherwise.
    func appendFlushMarker() throws(KVStoreError) {
        try withLog { (log) throws(FileSystemError) in
            guard !log.endsFlushed else { return }
            do throws(FileSystemError) {
                _ = try log.append(.flushed)
            } catch  where error.isOutOfSpace && !log.isPoisoned && handle.removalReserve.release() {
                _ = try log.append(.flushed)
            }
        }
    }

    /// Calls `change` with the log; for changes that are not about a key.
    private func withLog(_ change: (inout AppendLog) throws(FileSystemError) -> Void) throws(KVStoreError) {
        try writer.withLock { (writer) throws(KVStoreError) in
            do throws(FileSystemError) {
                try change(&writer.log)
            } catch {
                throw KVStoreError(error, .synchronize, store: name)
            }
        }
    }
}

/// Work that is done once: calls beside it wait for it, and it and all later ones have its result.
final class SingleRun: Sendable {
    private enum State {
        case notBegun
        case running(thread: ObjectIdentifier)
        case over(KVStoreError?)
    }

    private let state = Mutex(State.notBegun)
    private let end = OneTimeEvent()

    /// Does the work, or has the result of the call that does it.
    ///
    /// - Throws: The error of the work; `reentered` in a call by the work itself, which would wait for itself.
    func run(
        reentered: @autoclosure () -> KVStoreError, _ work: () throws(KVStoreError) -> Void
    ) throws(KVStoreError) {
        let thread = ObjectIdentifier(Thread.current)
        let earlier = state.withLock { state in
            let earlier = state
            if case .notBegun = earlier { state = .running(thread: thread) }
            return earlier
        }
        switch earlier {
        case .notBegun:
            let failure: KVStoreError?
            do throws(KVStoreError) {
                try work()
                failure = nil
            } catch {
                failure = error
            }
            state.withLock { $0 = .over(failure) }
            end.signal()
        case .running(let running):
            guard running != thread else { throw reentered() }
            end.wait()
        case .over: break
        }
        if case .over(let failure?) = state.withLock({ $0 }) { throw failure }
    }
}

/// An event that happens once, such as the end of opening or closing a store, and that threads can wait for.
final class OneTimeEvent: Sendable {
    private let happened = DispatchSemaphore(value: 0)

    /// Called once.
    func signal() { happened.signal() }

    var hasHappened: Bool {
        guard happened.wait(timeout: .now()) == .success else { return false }
        happened.signal()
        return true
    }

    func wait() {
        happened.wait()
        happened.signal()
    }
}
