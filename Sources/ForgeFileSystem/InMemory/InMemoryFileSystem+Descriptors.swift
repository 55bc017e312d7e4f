import Dispatch
public import SystemPackage

extension InMemoryFileSystem {
    public func open(
        _ path: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode,
        options: FileDescriptor.OpenOptions, permissions: FilePermissions, resolution: PathResolution
    ) throws(FileSystemError) -> Descriptor {
        try perform(.open, path) { (state) throws(Errno) in
            try state.open(path, at: directory, mode, options, permissions, resolution)
        }
    }

    public func close(_ descriptor: Descriptor) throws(FileSystemError) {
        try perform(.close) { (state) throws(Errno) in try state.close(descriptor) }
    }

    public func duplicate(_ descriptor: Descriptor) throws(FileSystemError) -> Descriptor {
        try perform(.duplicate) { (state) throws(Errno) in try state.duplicate(descriptor) }
    }

    /// Takes, changes or releases the lock of an open file (`flock(2)`).
    ///
    /// A waiting call blocks its thread until the lock is free; waiters are not served in order. A change from shared
    /// to exclusive or back first releases the old lock, as on Linux, so it is lost if the call throws.
    public func lock(_ descriptor: Descriptor, _ mode: LockMode, waiting: Bool) throws(FileSystemError) {
        while true {
            let answer = try perform(.lock) { (state) throws(Errno) in
                try state.lock(descriptor, mode, waiting: waiting)
            }
            switch answer {
            case .done: return
            case .wait(let semaphore): semaphore.wait()
            }
        }
    }
}
