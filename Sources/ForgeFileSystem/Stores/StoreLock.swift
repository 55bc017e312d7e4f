import SystemPackage

/// The lock that says who uses a store: a lock of the file `#lock`, given back by the system when the process dies.
package final class StoreLock: Sendable {
    private let fileSystem: any POSIXFileSystem
    private let descriptor: Descriptor

    /// Takes the lock, waiting for others to give it back only if asked to.
    ///
    /// - Throws: `EAGAIN` if another store object, in this process or another, is in the way.
    package init(
        _ mode: LockMode, waiting: Bool = false, named name: POSIXPath = .lockName, at directory: Descriptor,
        on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) {
        let descriptor = try fileSystem.open(
            name, at: directory, .readWrite, options: [.create, .noFollow], permissions: .privateFile,
            resolution: [.beneath, .noSymbolicLinks])
        do {
            try fileSystem.naming(name) { () throws(FileSystemError) in
                try fileSystem.retryingInterrupts { () throws(FileSystemError) in
                    try fileSystem.lock(descriptor, mode, waiting: waiting)
                }
            }
        } catch {
            // The lock was not had; why is what the caller needs to hear.
            fileSystem.discard(descriptor)
            throw error
        }
        self.fileSystem = fileSystem
        self.descriptor = descriptor
    }

    /// Makes the exclusive lock a shared one; another object may have had it for itself in between (`flock(2)`).
    package func share() throws(FileSystemError) {
        try fileSystem.retryingInterrupts { () throws(FileSystemError) in
            try fileSystem.lock(descriptor, .shared, waiting: true)
        }
    }

    deinit {
        // Closing gives the lock back; nothing can be done about a failure here.
        fileSystem.discard(descriptor)
    }
}
