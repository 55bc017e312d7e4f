import Dispatch
import SystemPackage

extension InMemoryFileSystem.State {
    /// The result of a lock request.
    enum LockAnswer: Sendable {
        case done
        /// Another open file holds a conflicting lock; ask again once this is signalled.
        case wait(DispatchSemaphore)
    }

    /// Takes, changes or releases the lock of an open file.
    ///
    /// A change is a release and a request, as on Linux: if the request fails, the old lock is lost.
    mutating func lock(_ descriptor: Descriptor, _ mode: LockMode, waiting: Bool) throws(Errno) -> LockAnswer {
        let file = try openFile(descriptor)
        guard openFiles[file].lock != mode else { return .done }
        unlock(file)
        let index = openFiles[file].inode
        switch mode {
        case .unlocked:
            return .done
        case .shared where inodes[index].lockCount >= 0:
            inodes[index].lockCount += 1
        case .exclusive where inodes[index].lockCount == 0:
            inodes[index].lockCount = -1
        case .shared, .exclusive:
            guard waiting else { throw .resourceTemporarilyUnavailable }
            let semaphore = DispatchSemaphore(value: 0)
            lockWaiters.append(semaphore)
            return .wait(semaphore)
        }
        openFiles[file].lock = mode
        return .done
    }

    /// Releases the lock of an open file, if it has one.
    mutating func unlock(_ file: Int) {
        let index = openFiles[file].inode
        switch openFiles[file].lock {
        case .unlocked: return
        case .shared: inodes[index].lockCount -= 1
        case .exclusive: inodes[index].lockCount = 0
        }
        openFiles[file].lock = .unlocked
        for waiter in lockWaiters { waiter.signal() }
        lockWaiters = []
    }
}
