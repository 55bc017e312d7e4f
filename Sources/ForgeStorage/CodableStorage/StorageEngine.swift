import ForgeFileSystem
import Foundation
import Synchronization
import SystemPackage

/// What ``DiskStorage`` and ``InMemoryStorage`` have in common: one file for each key, on any POSIX file system.
///
/// The root is opened at the first call that needs it. The lock is held while it is opened, never during other I/O.
final class StorageEngine: Sendable {
    private let location: URL
    private let fileSystem: any POSIXFileSystem
    private let opened = Mutex<StoreDirectory?>(nil)

    init(location: URL, fileSystem: any POSIXFileSystem) {
        self.location = location
        self.fileSystem = fileSystem
    }

    func fetch(_ key: String) throws(StorageError) -> Data {
        do {
            let key = try RelativeKey(key)
            guard let directory = try openExisting() else { throw StorageError.notFound }
            let bytes = try retrying(directory, creating: false) { (root) throws(FileSystemError) in try root.read(key)
            }
            return Data(bytes)
        } catch let error as StorageError {
            throw error
        } catch let error as FileSystemError where error.errno == .noSuchFileOrDirectory {
            throw .notFound
        } catch {
            throw .cantRead(error)
        }
    }

    func save(_ value: Data, for key: String) throws(StorageError) {
        do {
            let key = try RelativeKey(key)
            try retrying(try open(), creating: true) { (directory) throws(FileSystemError) in
                try withBytes(of: value) { (bytes) throws(FileSystemError) in try directory.replace(key, with: bytes) }
            }
        } catch {
            throw .cantWrite(error)
        }
    }

    func remove(_ key: String) throws(StorageError) {
        do {
            let key = try RelativeKey(key)
            guard let directory = try openExisting() else { return }
            try retrying(directory, creating: false) { (root) throws(FileSystemError) in try root.unlink(key) }
        } catch let error as FileSystemError where error.errno == .noSuchFileOrDirectory {
            return
        } catch {
            throw .cantRemove(error)
        }
    }

    // MARK: The root

    /// The root, or nil if it does not exist: reading creates nothing.
    private func openExisting() throws(FileSystemError) -> StoreDirectory? {
        try opened.withLock { (directory) throws(FileSystemError) in
            if let directory { return directory }
            let path = try POSIXPath(location)
            do throws(FileSystemError) {
                _ = try fileSystem.status(path)
            } catch  where error.errno == .noSuchFileOrDirectory {
                return nil
            }
            let root = try StoreDirectory(path, on: fileSystem)
            directory = root
            return root
        }
    }

    private func open(insteadOf stale: StoreDirectory? = nil) throws(FileSystemError) -> StoreDirectory {
        try opened.withLock { (directory) throws(FileSystemError) in
            if let directory, directory !== stale { return directory }
            let root = try StoreDirectory(try POSIXPath(location), on: fileSystem)
            directory = root
            return root
        }
    }

    /// Calls `body`, and once more if the root was removed or replaced since it was opened.
    ///
    /// A purge of the caches while the app runs must not leave a storage that finds and stores nothing any more.
    private func retrying<Result>(
        _ directory: StoreDirectory, creating: Bool, _ body: (StoreDirectory) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        do {
            return try body(directory)
        } catch  where error.errno == .noSuchFileOrDirectory {
            guard try isStale(directory, orMissing: creating) else { throw error }
            return try body(try open(insteadOf: directory))
        }
    }

    private func isStale(_ directory: StoreDirectory, orMissing: Bool) throws(FileSystemError) -> Bool {
        let current: FileStatus
        do throws(FileSystemError) {
            current = try fileSystem.status(directory.path)
        } catch  where error.errno == .noSuchFileOrDirectory {
            return orMissing
        }
        let held = try directory.withDirectory(nil) { (descriptor) throws(FileSystemError) in
            try fileSystem.status(of: .descriptor(descriptor))
        }
        return current.inode != held.inode || current.device != held.device
    }
}
