import ForgeFileSystem
import Foundation
import SystemPackage

/// Files from outside: copy and move.
extension FileStoreEngine {
    func copy(from url: URL, to key: String, overwrite: Bool) async throws {
        let checked = try RelativeKey(checking: key, for: .copy)
        let source = try ExternalSource(url, on: configuration.sources ?? fileSystem, .copy, key: key)
        try await offload { [self] cancellation in
            try pour(source.open(), into: checked, overwrite, durability, cancellation)
        }
    }

    func move(from url: URL, to key: String, overwrite: Bool) async throws {
        let checked = try RelativeKey(checking: key, for: .move)
        let source = try ExternalSource(url, on: configuration.sources ?? fileSystem, .move, key: key)
        try await offload { [self] cancellation in
            let open = try source.open()
            if try rename(open, to: checked, overwrite) { return }
            let claim = try ClaimedSource(open)
            do {
                // The copy has to be durable, whatever the store's own level, before the only other one is removed.
                try pour(open, into: checked, overwrite, .full, cancellation, beforeCommit: claim.checkUnchanged)
                try claim.checkUnchanged()
            } catch {
                throw claim.restore() ?? error
            }
            try claim.remove()
        }
    }

    /// Stores the content of a file, a piece at a time.
    private func pour(
        _ source: OpenSource, into key: RelativeKey, _ overwrite: Bool, _ durability: Durability,
        _ cancellation: Cancellation, beforeCommit check: () throws -> Void = {}
    ) throws {
        let size = min(max(Int(clamping: source.status.sizeInBytes), 1), 1 << 20)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 16)
        defer { buffer.deallocate() }
        // An error of the source; the recipe passes on errors of its own file system only.
        var interruption: (any Error)?
        do {
            try attemptStoring(source.origin.operation, key.string) { (directory) throws(FileSystemError) in
                try directory.replace(key, overwrite ? .replacing : .exclusive, durability: durability) {
                    (target) throws(FileSystemError) in
                    var offset: Int64 = 0
                    while true {
                        let count: Int
                        do {
                            try cancellation.check()
                            count = try source.origin.read(source.file, into: buffer, at: offset)
                            if count == 0 { try check() }
                        } catch {
                            interruption = error
                            throw FileSystemError(.read, .canceled, path: source.origin.path)
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
    ///
    /// The file first gets a private name in the root, where programs that can write to its own directory no longer reach
    /// it, and replaces the file at the key only when it was found to be the one that was opened.
    private func rename(
        _ source: OpenSource, to key: RelativeKey, _ overwrite: Bool
    ) throws(FileStoreError) -> Bool {
        let (file, status) = (source.file, source.status)
        // Other programs could reach the stored file by its second name.
        guard configuration.sources == nil, status.linkCount == 1 else { return false }
        do {
            try fileSystem.setPermissions(.privateFile, of: .descriptor(file))
        } catch {
            return false  // Another user's file; it may be readable.
        }
        var claim: ClaimedSource?
        // An error of the source; the recipe passes on errors of the file system only.
        var refusal: FileStoreError?
        do {
            try attemptStoring(.move, key.string) { (store) throws(FileSystemError) in
                if let level = durability.fileLevel { try fileSystem.synchronize(file, level) }
                try store.adopt(as: key, overwrite ? .replacing : .exclusive, durability: durability) {
                    (root) throws(FileSystemError) in
                    let new = try Self.claim(source, at: root, of: store, &refusal)
                    claim = new
                    return new.privateName
                } restore: { () throws(FileSystemError) in
                    refusal = claim?.restore()
                    if refusal != nil { throw FileSystemError(.rename, .canceled, path: source.origin.path) }
                }
                try store.synchronizeNames(source.directory, key.path, durability)
            }
            return true
        } catch {
            guard error.code != .durabilityUnknown else { throw error }
            // The first failure is the one to report; at worst the source is left for its owner alone.
            do { try fileSystem.setPermissions(status.permissions, of: .descriptor(file)) } catch _ {}
            if let refusal { throw refusal }
            guard let cause = error.underlying as? FileSystemError, cause.errno.isNoRename else { throw error }
            return false
        }
    }

    private static func claim(
        _ source: OpenSource, at root: Descriptor, of store: StoreDirectory, _ refusal: inout FileStoreError?
    ) throws(FileSystemError) -> ClaimedSource {
        do {
            return try ClaimedSource(source, as: POSIXPath.movePrefix, at: root, path: store.path)
        } catch {
            switch error {
            case .notClaimed(let cause): throw cause
            case .refused(let problem):
                refusal = problem
                throw FileSystemError(.rename, .canceled, path: source.origin.path)
            }
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
