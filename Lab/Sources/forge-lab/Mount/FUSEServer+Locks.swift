#if os(Linux)
import ForgeFileSystem
import SystemPackage

/// Locks on whole files (`flock(2)`); the kernel keeps those on ranges itself.
extension FUSEServer {
    /// A pending request for a lock.
    struct WaitingLock {
        var unique: UInt64
        var descriptor: Descriptor
        var mode: LockMode
    }

    func lock(_ request: inout FUSERequest, waiting: Bool) throws(FileSystemError) -> Answer {
        let descriptor = try descriptor(request.u64())
        try request.skip(8 + 16)
        let type = try request.u32()
        try request.skip(4)
        guard try request.u32() & FUSEProtocol.wholeFileLock != 0 else { throw FileSystemError(.lock, .noFunction) }
        let mode: LockMode
        switch type {
        case 0: mode = .shared
        case 1: mode = .exclusive
        case 2: mode = .unlocked
        default: throw FileSystemError(.lock, .invalidArgument)
        }
        do throws(FileSystemError) {
            try fileSystem.lock(descriptor, mode, waiting: false)
        } catch {
            guard waiting, error.errno == .resourceTemporarilyUnavailable else { throw error }
            waitingLocks.append(WaitingLock(unique: request.unique, descriptor: descriptor, mode: mode))
            return .later
        }
        return .reply(FUSEReply(capacity: 0))
    }

    /// `flock(2)` cannot query a lock; only range locks can.
    func lockInTheWay(_ request: inout FUSERequest) throws(FileSystemError) -> FUSEReply {
        throw FileSystemError(.lock, .noFunction)
    }

    /// Grants the pending locks that are free by now, oldest request first.
    func retryLocks() -> [FUSEReply] {
        guard !waitingLocks.isEmpty else { return [] }
        var replies: [FUSEReply] = []
        waitingLocks.removeAll { waiting in
            do throws(FileSystemError) {
                try fileSystem.lock(waiting.descriptor, waiting.mode, waiting: false)
                var reply = FUSEReply(capacity: 0)
                reply.finish(unique: waiting.unique)
                replies.append(reply)
            } catch {
                guard error.errno != .resourceTemporarilyUnavailable else { return false }
                replies.append(Self.failure(error.errno, of: waiting.unique))
            }
            return true
        }
        return replies
    }

    /// A signal arrived for a pending request; only lock requests can be pending.
    func interrupt(_ request: inout FUSERequest) throws(FileSystemError) -> Answer {
        let unique = try request.u64()
        guard let index = waitingLocks.firstIndex(where: { $0.unique == unique }) else { return .none }
        waitingLocks.remove(at: index)
        return .finished(Self.failure(.interrupted, of: unique))
    }
}
#endif
