import Foundation
import SystemPackage

/// The lock that says which process uses a store: a lock on the file `#lock`, which the system releases when the process dies.
package final class StoreLock: Sendable {
    private let fileSystem: any POSIXFileSystem
    private let descriptor: Descriptor

    /// Takes the lock, and waits for its release by others only if asked to.
    ///
    /// - Throws: `EAGAIN` if another store object, in this process or another, is in the way.
    package init(
        _ mode: LockMode, waiting: Bool = false, named name: POSIXPath = .lockName, at directory: Descriptor,
        on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) {
        let descriptor = try fileSystem.openStoreFile(name, at: directory)
        do {
            try fileSystem.naming(name) { () throws(FileSystemError) in
                try fileSystem.retryingInterrupts { () throws(FileSystemError) in
                    try fileSystem.lock(descriptor, mode, waiting: waiting)
                }
            }
        } catch {
            fileSystem.discard(descriptor)
            throw error
        }
        self.fileSystem = fileSystem
        self.descriptor = descriptor
    }

    /// Puts a text in the place of what the file of the lock holds.
    package func write(_ text: [UInt8]) throws(FileSystemError) {
        try fileSystem.truncate(.descriptor(descriptor), to: 0)
        try fileSystem.writeBytes(text, to: descriptor, at: 0)
    }

    /// The process that took the lock.
    private let owner = ProcessInfo.processInfo.processIdentifier

    deinit {
        // Closing releases the lock only with the last copy of the descriptor, and a child process that was started
        // meanwhile has copies of all of them until it executes its program. A forked child must not unlock: its copy
        // is of the parent's lock.
        if ProcessInfo.processInfo.processIdentifier == owner {
            do throws(FileSystemError) {
                try fileSystem.retryingInterrupts { () throws(FileSystemError) in
                    try fileSystem.lock(descriptor, .unlocked, waiting: false)
                }
            } catch _ {}  // Closing is what is left.
        }
        fileSystem.discard(descriptor)
    }
}
