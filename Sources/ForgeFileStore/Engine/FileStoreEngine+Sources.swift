import ForgeFileSystem
import Foundation
import SystemPackage

/// Files from outside: copy and move.
extension FileStoreEngine {
    func copy(from url: URL, to key: String, overwrite: Bool) async throws {
        let checked = try RelativeKey(checking: key, for: .copy)
        let source = try ExternalSource(url, on: configuration.sources ?? fileSystem, .copy, key: key)
        try await offload { [self] cancellation in
            try source.withFile { (file, status, _, _) in
                try pour(source, file, status, into: checked, overwrite, durability, cancellation)
            }
        }
    }

    func move(from url: URL, to key: String, overwrite: Bool) async throws {
        let checked = try RelativeKey(checking: key, for: .move)
        let source = try ExternalSource(url, on: configuration.sources ?? fileSystem, .move, key: key)
        try await offload { [self] cancellation in
            try source.withFile { (file, status, directory, name) in
                if try rename(source, name, at: directory, file, status, to: checked, overwrite) { return }
                // The copy has to be durable, whatever the store's own level, before the only other one goes.
                try pour(source, file, status, into: checked, overwrite, .full, cancellation)
                guard try isUnchanged(source, status, name, at: directory) else {
                    throw source.failure(.changed, nil)
                }
                try source.remove(name, at: directory)
            }
        }
    }

    private func isUnchanged(
        _ source: ExternalSource, _ status: FileStatus, _ name: POSIXPath, at directory: Descriptor
    ) throws(FileStoreError) -> Bool {
        do {
            return try source.isUnchanged(status, name, at: directory)
        } catch {
            throw source.failure(.notRemoved, error)
        }
    }

    /// Stores what a file holds, a piece at a time.
    private func pour(
        _ source: ExternalSource, _ file: Descriptor, _ status: FileStatus, into key: RelativeKey, _ overwrite: Bool,
        _ durability: Durability, _ cancellation: Cancellation
    ) throws {
        let size = min(max(Int(clamping: status.sizeInBytes), 1), 1 << 20)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 16)
        defer { buffer.deallocate() }
        // What fails on the other side of the copy; the recipe knows errors of its own file system only.
        var interruption: (any Error)?
        do {
            try attemptStoring(source.operation, key.string) { (directory) throws(FileSystemError) in
                try directory.replace(key, overwrite ? .replacing : .exclusive, durability: durability) {
                    (target) throws(FileSystemError) in
                    var offset: Int64 = 0
                    while true {
                        let count: Int
                        do {
                            try cancellation.check()
                            count = try source.read(file, into: buffer, at: offset)
                        } catch {
                            interruption = error
                            throw FileSystemError(.read, .canceled, path: source.path)
                        }
                        if count == 0 { return }
                        try fileSystem.writeFully(target, from: UnsafeRawBufferPointer(rebasing: buffer[..<count]))
                        offset += Int64(count)
                    }
                }
            }
        } catch {
            throw interruption ?? error
        }
    }

    /// Moves a file by renaming it, if it is one that can become the store's own as it is.
    private func rename(
        _ source: ExternalSource, _ name: POSIXPath, at directory: Descriptor, _ file: Descriptor,
        _ status: FileStatus, to key: RelativeKey, _ overwrite: Bool
    ) throws(FileStoreError) -> Bool {
        // A file with a second name stays in somebody else's reach.
        guard configuration.sources == nil, status.linkCount == 1 else { return false }
        do {
            try fileSystem.setPermissions(.privateFile, of: .descriptor(file))
        } catch {
            return false  // Somebody else's file; it can be copied, perhaps.
        }
        do {
            try attemptStoring(.move, key.string) { (store) throws(FileSystemError) in
                if let level = durability.fileLevel { try fileSystem.synchronize(file, level) }
                try store.adopt(
                    name, at: directory, as: key, overwrite ? .replacing : .exclusive, durability: durability)
            }
        } catch {
            guard error.code != .durabilityUnknown else { throw error }
            // The first failure is the one to report; at worst the source is left for its owner alone.
            do { try fileSystem.setPermissions(status.permissions, of: .descriptor(file)) } catch _ {}
            guard let cause = error.underlying as? FileSystemError, cause.errno.isNoRename else { throw error }
            return false
        }
        guard try isAdopted(file, status, key) else { throw source.failure(.changed, nil) }
        return true
    }

    /// Whether the file that was opened is the one that was renamed.
    private func isAdopted(
        _ file: Descriptor, _ status: FileStatus, _ key: RelativeKey
    ) throws(FileStoreError) -> Bool {
        try attempt(.move, key.string) { (directory) throws(FileSystemError) in
            do throws(FileSystemError) {
                let now = try directory.status(of: key)
                if now.inode == status.inode, now.device == status.device { return true }
            } catch  where error.errno.isDisappearance {
                // Deleted again already, or replaced together with its directory.
            }
            // Another save may have replaced it since; then it has no name any more.
            return try fileSystem.status(of: .descriptor(file)).linkCount == 0
        }
    }
}

extension Durability {
    fileprivate var fileLevel: SyncLevel? {
        switch self {
        case .full: .full
        case .barrier: .barrier
        case .none: nil
        }
    }
}

extension Errno {
    /// Whether the error says that a rename is not the way to get from there to here.
    fileprivate var isNoRename: Bool { self == .improperLink || isMissingFeature }
}
