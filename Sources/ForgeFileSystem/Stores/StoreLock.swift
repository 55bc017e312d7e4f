import Foundation
import SystemPackage

/// The lock that gives a process exclusive or shared use of a store: a lock on the file `#lock`, which the system
/// releases when the process dies.
package final class StoreLock: Sendable {
    private let fileSystem: any POSIXFileSystem
    private let descriptor: Descriptor

    /// Takes the lock, waiting at most `timeout` for its release by others.
    ///
    /// A lock file that is never written (`isWritten` is false) may have several hard links.
    ///
    /// - Throws: `EAGAIN` if another store object, in this process or another, still holds the lock after that time.
    package init(
        _ mode: LockMode, waitingAtMost timeout: Duration = .zero, named name: POSIXPath = .lockName,
        isWritten: Bool = true, at directory: Descriptor, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) {
        let descriptor = try fileSystem.openStoreFile(name, at: directory, isWritten: isWritten)
        do {
            try fileSystem.withPathInErrors(name) { () throws(FileSystemError) in
                try fileSystem.lock(descriptor, mode, waitingAtMost: timeout)
            }
        } catch {
            fileSystem.discard(descriptor)
            throw error
        }
        self.fileSystem = fileSystem
        self.descriptor = descriptor
    }

    /// Replaces the content of the lock file.
    package func write(_ text: [UInt8]) throws(FileSystemError) {
        try fileSystem.truncate(.descriptor(descriptor), to: 0)
        try fileSystem.writeBytes(text, to: descriptor, at: 0)
    }

    /// The process that took the lock.
    private let owner = ProcessInfo.processInfo.processIdentifier

    deinit {
        // Closing releases the lock only with the last copy of the descriptor, and a child process that is being
        // started has copies of all of them until it executes its program. A forked child must not unlock: its copy
        // refers to the parent's lock.
        if ProcessInfo.processInfo.processIdentifier == owner {
            do throws(FileSystemError) {
                try fileSystem.retryingInterrupts { () throws(FileSystemError) in
                    try fileSystem.lock(descriptor, .unlocked, waiting: false)
                }
            } catch _ {}  // Closing remains.
        }
        fileSystem.discard(descriptor)
    }
}

extension POSIXFileSystem {
    /// Retries until the lock is taken or the time is up: `flock(2)` itself waits without limit.
    ///
    /// - Throws: `EAGAIN` if another open file still holds a conflicting lock.
    func lock(
        _ descriptor: Descriptor, _ mode: LockMode, waitingAtMost timeout: Duration
    ) throws(FileSystemError) {
        var end: ContinuousClock.Instant?
        var pause = 0.000_02
        while true {
            do {
                return try retryingInterrupts { () throws(FileSystemError) in
                    try lock(descriptor, mode, waiting: false)
                }
            } catch  where error.errno == .resourceTemporarilyUnavailable {
                let now = ContinuousClock.now
                let last = end ?? now + timeout.bounded
                end = last
                guard now < last else { throw error }
                Thread.sleep(forTimeInterval: pause)
                pause = min(2 * pause, 0.002)
            }
        }
    }
}
