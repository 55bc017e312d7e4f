import Synchronization
import SystemPackage

/// A conditional replacement checks a file and then replaces it. Until both are done, no store may replace or remove
/// the file: every change of a name in a directory holds a lock on the directory (`flock(2)`), for the length of a
/// rename.
extension StoreDirectory {
    /// How long a conditional replacement waits for the lock; it fails then.
    private static let conditionalPatience: Duration = .seconds(10)

    /// How long other changes wait; then they are made without the lock, because a program that locks the directory for
    /// purposes of its own, or a stopped process, must not prevent them.
    private static let patience: Duration = .seconds(1)

    /// Calls `body` while no conditional replacement in a directory is between its check and its rename.
    ///
    /// - Parameters:
    ///   - directory: An open directory of the store.
    ///   - isConditional: Whether `body` is such a replacement.
    ///   - body: The change.
    /// - Returns: The result of `body`.
    /// - Throws: `EAGAIN` for a conditional replacement if another program holds the lock for ten seconds; the errors
    ///   of `body`. Where directories cannot be locked, such as on some network file systems, `body` is called anyway.
    func excludingChanges<Result>(
        in directory: Descriptor, isConditional: Bool = false, _ body: () throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        // A lock belongs to an open file, and threads share `directory`.
        let own = try fileSystem.open(".", at: directory, .readOnly, options: [.directory], permissions: [])
        defer { fileSystem.discard(own) }
        if let result = try excludingOwnChanges(in: own, body) { return result }
        do throws(FileSystemError) {
            let patience = isConditional ? Self.conditionalPatience : Self.patience
            try fileSystem.lock(own, .exclusive, waitingAtMost: patience)
        } catch {
            let isBusy = error.errno == .resourceTemporarilyUnavailable
            guard isBusy && !isConditional || error.errno.isMissingLock else { throw error }
            return try body()
        }
        // Not left to `close`: a child process that is being started has a copy of the descriptor for a moment.
        defer { do { try fileSystem.lock(own, .unlocked, waiting: false) } catch _ {} }
        return try body()
    }

    /// Calls `body` with the lock if no other process holds it; nil otherwise. Calls of this process wait for one
    /// another without polling.
    private func excludingOwnChanges<Result>(
        in own: Descriptor, _ body: () throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result? {
        let identity = DirectoryIdentity(try fileSystem.status(of: .descriptor(own)))
        let turns = Self.turns[Int(truncatingIfNeeded: identity.inode) & (Self.turns.count - 1)]
        return try turns.mutex.withLock { (_) throws(FileSystemError) -> Result? in
            do throws(FileSystemError) {
                try fileSystem.lock(own, .exclusive, waiting: false)
            } catch {
                return nil  // The caller waits, or goes on without a lock.
            }
            defer { do { try fileSystem.lock(own, .unlocked, waiting: false) } catch _ {} }
            return try body()
        }
    }

    private static let turns = (0..<64).map { _ in Turns() }

    /// Orders the changes of this process in the directories with some inode numbers.
    private final class Turns: Sendable {
        let mutex = Mutex(())
    }
}

extension Errno {
    /// Whether a file system has no locks, or none on directories.
    fileprivate var isMissingLock: Bool {
        isMissingFeature || self == .noLocks || self == .badFileDescriptor
    }
}
