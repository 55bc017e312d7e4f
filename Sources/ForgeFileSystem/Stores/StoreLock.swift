import Foundation
import Synchronization
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
            try fileSystem.lock(descriptor, mode, waitingAtMost: timeout)
        } catch {
            fileSystem.discard(descriptor)
            throw error.named(name)
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
            // If that fails, closing remains.
            do throws(FileSystemError) { _ = try fileSystem.tryLock(descriptor, .unlocked) } catch _ {}
        }
        fileSystem.discard(descriptor)
    }
}

extension POSIXFileSystem {
    /// Takes, changes or releases the lock of an open file without waiting; false if another open file holds a
    /// conflicting one.
    package func tryLock(_ descriptor: Descriptor, _ mode: LockMode) throws(FileSystemError) -> Bool {
        do throws(FileSystemError) {
            try retryingInterrupts { () throws(FileSystemError) in try lock(descriptor, mode, waiting: false) }
            return true
        } catch  where error.errno == .resourceTemporarilyUnavailable {
            return false
        }
    }

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

/// A conditional replacement checks a file and then replaces it. Until both are done, no store may replace or remove
/// the file: every change of a name in a directory takes a turn, that is a lock on the directory (`flock(2)`), for the
/// length of a rename.
extension StoreDirectory {
    /// Calls `body` while no other change of a name in a directory is made.
    ///
    /// - Parameters:
    ///   - directory: An open directory of the store.
    ///   - path: Its path from the root; nil for the root.
    ///   - isOwn: Whether only this call uses the open directory: a lock belongs to an open file, and threads share the
    ///     root.
    ///   - limit: How long to wait for the turn; ``turnPatience`` by default.
    ///   - body: The change.
    /// - Returns: The result of `body`.
    /// - Throws: An error with ``FileSystemError/isTakenTurn`` if another process, or another object of this one, keeps
    ///   the turn longer than that; the errors of `body`. Where directories cannot be locked, such as on
    ///   some network file systems, `body` is called anyway.
    func takingTurn<Result>(
        in directory: Descriptor, _ path: POSIXPath?, isOwn: Bool, waitingAtMost limit: Duration? = nil,
        _ body: () throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        guard let turnPatience else { return try body() }
        let patience = limit ?? turnPatience
        guard !isOwn else { return try takingTurn(of: directory, path, patience, body) }
        let own = try fileSystem.open(".", at: directory, .readOnly, options: [.directory], permissions: [])
        defer { fileSystem.discard(own) }
        return try takingTurn(of: own, path, patience, body)
    }

    /// Calls `body` in turn in the directory of a key, whose descriptor only this call uses unless it is the root.
    func takingTurn<Result>(
        in parent: Descriptor, of key: RelativeKey, waitingAtMost limit: Duration? = nil,
        _ body: () throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        let path = key.isNested ? key.path.splitLast().parent : nil
        return try takingTurn(in: parent, path, isOwn: key.isNested, waitingAtMost: limit, body)
    }

    private func takingTurn<Result>(
        of own: Descriptor, _ path: POSIXPath?, _ patience: Duration, _ body: () throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        let result = try turns.ordered(path) { () throws(FileSystemError) -> Result? in
            do throws(FileSystemError) {
                try fileSystem.lock(own, .exclusive, waiting: false)
            } catch {
                return nil  // The wait below must not delay the changes of this process in other directories.
            }
            return try endingTurn(of: own, body)
        }
        if let result {
            turns.note(path, isTaken: false)
            return result
        }
        do throws(FileSystemError) {
            try fileSystem.lock(own, .exclusive, waitingAtMost: patience)
        } catch {
            if error.errno.isMissingLock { return try body() }
            turns.note(path, isTaken: true)
            var error = error
            error.path = path.map(self.path.appending) ?? self.path
            throw error
        }
        turns.note(path, isTaken: false)
        return try endingTurn(of: own, body)
    }

    /// Checks that the turn in the directory of a key is free, if the last change had to give up waiting for one: so a
    /// save stages no file while another process keeps the turn. Does not wait.
    ///
    /// - Throws: As ``takingTurn(in:of:waitingAtMost:_:)``.
    package func requireFreeTurn(of key: RelativeKey) throws(FileSystemError) {
        guard turns.mayBeTaken(key.isNested ? key.path.splitLast().parent : nil) else { return }
        do throws(FileSystemError) {
            try withParent(of: key, creating: false, checkingRoots: false) { (parent, _) throws(FileSystemError) in
                try takingTurn(in: parent, of: key, waitingAtMost: .zero) { () throws(FileSystemError) in }
            }
        } catch  where error.errno == .noSuchFileOrDirectory {}  // The save creates the directory.
    }

    private func endingTurn<Result>(
        of own: Descriptor, _ body: () throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        // Not left to `close`: a child process that is being started has a copy of the descriptor for a moment.
        defer { unlock(own) }
        return try body()
    }

    /// Unlocks a directory; tries again once, because other changes would wait for the lock.
    private func unlock(_ directory: Descriptor) {
        do throws(FileSystemError) {
            try fileSystem.lock(directory, .unlocked, waiting: false)
        } catch _ {
            do throws(FileSystemError) { try fileSystem.lock(directory, .unlocked, waiting: false) } catch _ {}
        }
    }

    /// Orders the changes that one object makes in the same directory, without polling.
    final class Turns: Sendable {
        private final class Slot: Sendable {
            let mutex = Mutex(())
            /// Whether the last change that took this slot gave up waiting.
            let isTaken = Atomic(false)
        }

        private let slots = (0..<16).map { _ in Slot() }

        func ordered<Result>(
            _ path: POSIXPath?, _ body: () throws(FileSystemError) -> Result
        ) throws(FileSystemError) -> Result {
            try slot(of: path).mutex.withLock { (_) throws(FileSystemError) in try body() }
        }

        /// Whether another process may keep the turn in a directory.
        func mayBeTaken(_ path: POSIXPath?) -> Bool { slot(of: path).isTaken.load(ordering: .relaxed) }

        func note(_ path: POSIXPath?, isTaken: Bool) {
            guard mayBeTaken(path) != isTaken else { return }
            slot(of: path).isTaken.store(isTaken, ordering: .relaxed)
        }

        private func slot(of path: POSIXPath?) -> Slot { slots[(path?.hashValue ?? 0) & (slots.count - 1)] }
    }
}

extension FileSystemError {
    /// Whether a change was not made because another process, or another object of this one, holds the lock of a
    /// directory; ``path`` is that directory.
    package var isTakenTurn: Bool { operation == .lock && errno == .resourceTemporarilyUnavailable }
}

extension Errno {
    /// Whether a file system has no locks, or none on directories.
    fileprivate var isMissingLock: Bool {
        isMissingFeature || self == .noLocks || self == .badFileDescriptor
    }
}

extension POSIXFileSystem {
    /// Opens an internal file of a store with a permanent name, such as `#lock`; creates it with mode 0600 regardless
    /// of the umask.
    ///
    /// - Parameters:
    ///   - name: The name of the file.
    ///   - directory: The open directory of the store.
    ///   - isWritten: False for a file that is only locked.
    /// - Returns: The file, open for reading and writing.
    /// - Throws: ``FileSystemError``: `ENOTSUP` if a file that is not regular has the name, `EMLINK` if `isWritten` is
    ///   true and the file has several hard links: a write would change a file that does not belong to the store.
    package func openStoreFile(
        _ name: POSIXPath, at directory: Descriptor, isWritten: Bool = true
    ) throws(FileSystemError) -> Descriptor {
        while true {
            do throws(FileSystemError) {
                return try openExistingStoreFile(name, at: directory, isWritten)
            } catch {
                guard error.errno == .noSuchFileOrDirectory else { throw error }
            }
            do throws(FileSystemError) {
                return try createStoreFile(name, at: directory)
            } catch {
                // Another process created it first.
                guard error.errno == .fileExists else { throw error }
            }
        }
    }

    private func openExistingStoreFile(
        _ name: POSIXPath, at directory: Descriptor, _ isWritten: Bool
    ) throws(FileSystemError) -> Descriptor {
        let file = try open(
            name, at: directory, .readWrite, options: [.noFollow, .nonBlocking], permissions: [],
            resolution: [.beneath, .noSymbolicLinks])
        do throws(FileSystemError) {
            let status = try status(of: file, named: name)
            guard status.type == .regular else { throw FileSystemError(.open, .notSupported, path: name) }
            guard status.linkCount <= 1 || !isWritten else { throw FileSystemError(.open, .tooManyLinks, path: name) }
        } catch {
            discard(file)
            throw error
        }
        return file
    }

    /// Creates an internal file of a store, with mode 0600 regardless of the umask.
    ///
    /// - Throws: `EEXIST` if the name exists. A file whose mode could not be set is kept.
    package func createStoreFile(_ name: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> Descriptor {
        let file = try retryingInterrupts { () throws(FileSystemError) in
            try open(
                name, at: directory, .readWrite, options: [.create, .exclusiveCreate, .noFollow],
                permissions: .privateFile, resolution: [.beneath, .noSymbolicLinks])
        }
        do throws(FileSystemError) {
            try setPermissions(.privateFile, of: .descriptor(file))
        } catch {
            discard(file)
            throw error.named(name)
        }
        return file
    }
}

extension Duration {
    /// The duration, limited to a century: a deadline later than that is outside the range of some clocks.
    package var bounded: Duration {
        min(max(self, .zero), Duration(secondsComponent: 100 * 365 * 86_400, attosecondsComponent: 0))
    }
}
