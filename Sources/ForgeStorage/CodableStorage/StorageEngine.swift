import ForgeFileSystem
import Foundation
import SystemPackage

/// The implementation that ``DiskStorage`` and ``InMemoryStorage`` share: one file for each key, on any POSIX file
/// system.
final class StorageEngine: Sendable {
    private let root: Result<LazyStoreDirectory, FileSystemError>

    init(location: URL, fileSystem: any POSIXFileSystem) {
        root = Result { () throws(FileSystemError) in
            LazyStoreDirectory(try POSIXPath(location), of: .values, on: fileSystem)
        }
    }

    func fetch(_ key: String) throws(StorageError) -> Data {
        do {
            let key = try RelativeKey(key)
            guard let directory = try root.get().existing() else { throw StorageError.notFound }
            return Data(try directory.read(key))
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
            // A longer value could not be fetched.
            guard value.count <= maximumContentSizeInBytes else {
                throw FileSystemError(.write, .fileTooLarge, path: key.path)
            }
            try root.get().write { (directory) throws(FileSystemError) in
                try withBytes(of: value) { (bytes) throws(FileSystemError) in try directory.replace(key, with: bytes) }
            }
        } catch {
            throw .cantWrite(error)
        }
    }

    func remove(_ key: String) throws(StorageError) {
        do {
            let key = try RelativeKey(key)
            try root.get().existing()?.unlink(key)
        } catch let error as FileSystemError where error.errno == .noSuchFileOrDirectory {
            return
        } catch {
            throw .cantRemove(error)
        }
    }
}
