package import ForgeFileSystem
import Foundation
import Synchronization
import SystemPackage

/// The lock of a shared store, held only for the duration of a call: a lock of the file `#lock` and, in case another
/// program removes that file, of the directory itself, which a process locks too that has the store for itself.
///
/// It is acquired by polling, because a blocking `flock(2)` has no timeout.
final class ProcessLock: Sendable {
    private let fileSystem: any POSIXFileSystem
    private let directory: Descriptor

    /// Serialises the threads of this process: they share the descriptor, so `flock(2)` does not exclude them.
    private let threadLock = NSLock()

    /// The open lock file; nil if it is not open. The next attempt to take the lock opens it.
    private let descriptor = Mutex<Descriptor?>(nil)

    /// The content of the lock file of a shared store; an exclusive store writes its process ID instead.
    private static let text = Array("shared\n     ".utf8)

    /// How long opening waits although the lock file contains a process ID: the ID may be left over from an exclusive
    /// store, and the holder of the lock may be about to overwrite it.
    private static let grace = Duration.milliseconds(50)

    private static var busy: FileSystemError {
        FileSystemError(.lock, .resourceTemporarilyUnavailable, path: .lockName)
    }

    init(at directory: Descriptor, on fileSystem: any POSIXFileSystem) {
        self.directory = directory
        self.fileSystem = fileSystem
    }

    /// Acquires the lock; the same thread must release it.
    ///
    /// - Throws: `EAGAIN` if the lock is not free before the timeout.
    func acquire(within timeout: Duration) throws(FileSystemError) {
        try acquire(within: timeout) { (_) throws(FileSystemError) in true }
    }

    /// Acquires the lock to open the store, and marks the lock file as shared. Throws `EAGAIN` after ``grace`` if the
    /// file is still not marked as shared, because another process then has the store open exclusively.
    func acquireToOpen(within timeout: Duration) throws(FileSystemError) {
        try acquire(within: timeout) { (waited) throws(FileSystemError) in
            guard waited >= Self.grace else { return true }
            return try read() == Self.text
        }
        do throws(FileSystemError) {
            guard try read() != Self.text, let descriptor = descriptor.withLock({ $0 }) else { return }
            try fileSystem.writeBytes(Self.text, to: descriptor, at: 0)
        } catch {
            release()
            throw error
        }
    }

    private func read() throws(FileSystemError) -> [UInt8] {
        try fileSystem.readBytes(of: try opened(), at: 0, count: Self.text.count)
    }

    private func acquire(
        within timeout: Duration, while isWorthWaiting: (Duration) throws(FileSystemError) -> Bool
    ) throws(FileSystemError) {
        let start = ContinuousClock.now
        // Waiting for other threads of this process counts towards the timeout.
        let end = Date(timeIntervalSinceNow: timeout.bounded / .seconds(1))
        guard threadLock.try() || threadLock.lock(before: end) else {
            throw Self.busy
        }
        do throws(FileSystemError) {
            try acquireFiles(from: start, within: timeout, while: isWorthWaiting)
        } catch {
            threadLock.unlock()
            throw error
        }
    }

    /// Waits for the calls of other threads of this process, however long, and calls `body` while there is none: with
    /// the lock or, if another process holds it longer than the timeout, without.
    func drain(within timeout: Duration, _ body: () -> Void) {
        threadLock.lock()
        defer { threadLock.unlock() }
        do throws(FileSystemError) {
            try acquireFiles(from: .now, within: timeout) { (_) throws(FileSystemError) in true }
        } catch {
            return body()
        }
        body()
        releaseFiles()
    }

    private func acquireFiles(
        from start: ContinuousClock.Instant, within timeout: Duration,
        while isWorthWaiting: (Duration) throws(FileSystemError) -> Bool
    ) throws(FileSystemError) {
        guard try !tryToAcquire() else { return }
        var pause = 0.000_02
        repeat {
            let waited = start.duration(to: .now)
            guard waited < timeout, try isWorthWaiting(waited) else { throw Self.busy }
            Thread.sleep(forTimeInterval: pause)
            pause = min(2 * pause, 0.001)
        } while try !tryToAcquire()
    }

    private func tryToAcquire() throws(FileSystemError) -> Bool {
        let descriptor = try opened()
        guard try fileSystem.tryLock(descriptor, .exclusive) else { return false }
        do throws(FileSystemError) {
            // If another program has removed the lock file, other processes lock a new file of that name: open that.
            guard try fileSystem.briefStatus(of: .descriptor(descriptor)).linkCount > 0 else {
                close()
                return false
            }
            try fileSystem.lockStoreDirectory(directory, .exclusive)
            return true
        } catch {
            close()
            guard error.errno == .resourceTemporarilyUnavailable else { throw error }
            return false
        }
    }

    private func opened() throws(FileSystemError) -> Descriptor {
        if let descriptor = descriptor.withLock({ $0 }) { return descriptor }
        let opened = try fileSystem.openStoreFile(.lockName, at: directory)
        descriptor.withLock { $0 = opened }
        return opened
    }

    /// Releases the lock.
    func release() {
        releaseFiles()
        threadLock.unlock()
    }

    /// Unlocks the directory before `#lock`, because others acquire them in the opposite order.
    private func releaseFiles() {
        // Unlocking an open directory cannot fail.
        do throws(FileSystemError) { try fileSystem.lockStoreDirectory(directory, .unlocked) } catch _ {}
        guard let descriptor = descriptor.withLock({ $0 }) else { return }
        do throws(FileSystemError) {
            try fileSystem.retryingInterrupts { () throws(FileSystemError) in
                try fileSystem.lock(descriptor, .unlocked, waiting: false)
            }
        } catch {
            // Closing the descriptor releases the lock too.
            close()
        }
    }

    /// Closes the lock file, which releases the lock; the next attempt to take it opens the file again.
    func close() {
        let open = descriptor.withLock { descriptor in
            defer { descriptor = nil }
            return descriptor
        }
        if let open { fileSystem.discard(open) }
    }
}

extension POSIXFileSystem {
    /// Locks a key-value store for one process: `#lock`, and the directory for as long as it is open.
    ///
    /// - Throws: ``FileSystemError``: `EAGAIN`, if the store is open elsewhere, exclusively or shared.
    package func lockKVStore(
        _ directory: Descriptor, _ processes: ProcessTable = .system
    ) throws(FileSystemError) -> StoreLock {
        let lock = try StoreLock(.exclusive, at: directory, on: self)
        guard try SharedPage.user(at: directory, on: self, processes) == nil else {
            throw FileSystemError(.lock, .resourceTemporarilyUnavailable, path: .lockName)
        }
        try lockStoreDirectory(directory, .exclusive)
        return lock
    }

    /// Locks or unlocks the directory of a store without waiting, besides `#lock`, so that the store stays locked if
    /// another program removes `#lock`.
    ///
    /// Not every file system can lock a directory: NFS asks for a descriptor that is open for writing. `#lock` alone
    /// has to do there.
    func lockStoreDirectory(_ directory: Descriptor, _ mode: LockMode) throws(FileSystemError) {
        do throws(FileSystemError) {
            try retryingInterrupts { () throws(FileSystemError) in try lock(directory, mode, waiting: false) }
        } catch  where [.badFileDescriptor, .notSupported, .invalidArgument, .noLocks].contains(error.errno) {}
    }
}
