import ForgeFileSystem
public import Foundation
import SystemPackage

/// Copying and moving files into the store.
extension PlainFileStore {
    nonisolated(nonsending) public func copy(from source: URL, to key: String, overwrite: Bool) async throws {
        try await copy(from: source, to: key, overwrite: overwrite, progress: nil)
    }

    nonisolated(nonsending) public func copy(from source: URL, to key: String, overwrite: Bool, progress: Progress?)
        async throws
    {
        let checked = try RelativeKey(checking: key, for: .copy)
        let external = try ExternalSource(source, on: configuration.sources ?? disk, .copy, key: key)
        let pending = PendingFile()
        try await run(.copy, key, keeping: [pending]) { [self] cancellation in
            let open = try external.open()
            try copyContents(
                open, into: checked, pending, overwrite, durability,
                CopyMonitor(cancellation: cancellation, progress: progress), beforeCommit: open.checkUnchanged)
        }
    }

    nonisolated(nonsending) public func move(from source: URL, to key: String, overwrite: Bool) async throws {
        let checked = try RelativeKey(checking: key, for: .move)
        let external = try ExternalSource(source, on: configuration.sources ?? disk, .move, key: key)
        try await run(.move, key) { [self] cancellation in
            let open = try external.open()
            if try rename(open, to: checked, overwrite) { return }
            let claim = try ClaimedSource(open)
            do {
                // The copy must be durable before the original is removed, regardless of the store's durability. The staged
                // file is not kept for another attempt, because the source has its own name again until then.
                try copyContents(
                    open, into: checked, PendingFile(), overwrite, .full,
                    CopyMonitor(cancellation: cancellation, progress: nil),
                    beforeCommit: claim.checkUnchanged)
                try claim.checkUnchanged()
            } catch {
                throw claim.restore() ?? error
            }
            try claim.remove()
        }
    }

    /// Stores the content of a file, in pieces.
    private func copyContents(
        _ source: OpenSource, into key: RelativeKey, _ pending: PendingFile, _ overwrite: Bool,
        _ durability: Durability, _ monitor: CopyMonitor, beforeCommit check: () throws(FileStoreError) -> Void
    ) throws {
        // An error of the source, kept here because `store` can only throw a `FileSystemError`.
        var sourceError: (any Error)?
        monitor.cancellation.expectWork(ofSize: source.status.sizeInBytes)
        do {
            try attemptStoring(source.origin.operation, key.string) { (directory) throws(FileSystemError) in
                _ = try store(
                    pending, at: key, overwrite ? .always : .absent, durability, monitor.cancellation, in: directory
                ) { (staged) throws(FileSystemError) in
                    try staged.withFile { (target) throws(FileSystemError) in
                        do {
                            let copy = ContentCopy(
                                of: source.file, source.status, on: source.origin.fileSystem, to: target,
                                on: configuration.sources == nil ? nil : disk)
                            try monitor.run(copy, sizeInBytes: source.status.sizeInBytes)
                            if source.origin.operation == .move { try copyAttributes(of: source, to: target) }
                            try check()
                        } catch ContentCopy.Failure.target(let error) {
                            throw error
                        } catch {
                            if case ContentCopy.Failure.source(let cause) = error {
                                sourceError = source.origin.failure(.unreadable, cause)
                            } else {
                                sourceError = error
                            }
                            throw FileSystemError(.read, .canceled, path: source.origin.path)
                        }
                    }
                }
            }
        } catch {
            throw sourceError ?? error
        }
    }

    /// Copies the attributes that a store has given the source of a move.
    private func copyAttributes(of source: OpenSource, to target: Descriptor) throws(ContentCopy.Failure) {
        let attributes: [String: [UInt8]]
        do throws(FileSystemError) {
            attributes = try source.origin.fileSystem.fileAttributes(of: source.file)
        } catch {
            throw .source(error)
        }
        do throws(FileSystemError) {
            try disk.setFileAttributes(attributes, of: target)
        } catch {
            throw .target(error)
        }
    }

    /// Moves a file by renaming it into the store; returns false if it must be copied instead.
    ///
    /// The file is first renamed to a private name in the root, because other programs may be able to write to its own
    /// directory. It is renamed to the key only after it was verified to be the file that was opened.
    private func rename(
        _ source: OpenSource, to key: RelativeKey, _ overwrite: Bool
    ) throws(FileStoreError) -> Bool {
        let (file, status) = (source.file, source.status)
        // Other programs could access the stored file through a second hard link.
        guard configuration.sources == nil, status.linkCount == 1 else { return false }
        // Another user could change the mode of a file they own; the copy belongs to this process's user.
        guard status.owner == disk.effectiveUser else { return false }
        do {
            try disk.setPermissions(.privateFile, of: .descriptor(file))
        } catch {
            return false  // The file of another user; if it is readable, it can be copied.
        }
        var claim: ClaimedSource?
        // An error of the source, kept here because `adopt` can only throw a `FileSystemError`.
        var refusal: FileStoreError?
        do {
            try attemptStoring(.move, key.string) { (store) throws(FileSystemError) in
                if let level = durability.contentLevel { try disk.synchronize(file, level) }
                try store.adopt(as: key, overwrite ? .replacing : .exclusive, durability: durability) {
                    (root) throws(FileSystemError) in
                    let new = try Self.claim(source, at: root, of: store, &refusal)
                    claim = new
                    return new.privateName
                } restore: { () throws(FileSystemError) in
                    refusal = claim?.restore()
                    if refusal != nil { throw FileSystemError(.rename, .canceled, path: source.origin.path) }
                }
                // The source may have the time of an earlier file, and its inode number.
                store.setPreciseTime(of: file)
                try store.synchronizeNames(source.directory, key.path, durability)
            }
            return true
        } catch {
            guard error.code != .durabilityUnknown else { throw error }
            // Best effort: the first error is reported. If this fails, the source keeps mode 0600.
            do { try disk.setPermissions(status.permissions, of: .descriptor(file)) } catch _ {}
            if let refusal { throw refusal }
            guard let cause = error.underlying as? FileSystemError, cause.errno.requiresCopy else { throw error }
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

extension Errno {
    /// Whether the file cannot be renamed here: it is on another device, or there is no exclusive rename.
    fileprivate var requiresCopy: Bool { self == .improperLink || isMissingFeature }
}

/// Copying files of the store to places outside of it.
extension PlainFileStore {
    nonisolated(nonsending) public func export(_ key: String, to destination: URL, overwrite: Bool, progress: Progress?)
        async throws
    {
        let checked = try RelativeKey(checking: key, for: .export)
        let external = try ExportDestination(destination, on: configuration.sources ?? disk, key: key)
        try await run(.export, key) { [self] cancellation in
            let file = try open(checked, for: .export)
            cancellation.expectWork(ofSize: file.status.sizeInBytes)
            // An error of the store, kept here because `replace` can only throw a `FileSystemError`.
            var storeError: (any Error)?
            do {
                try file.use { source in
                    try external.replace(overwrite: overwrite, durability: durability) {
                        (target) throws(FileSystemError) in
                        do {
                            let copy = ContentCopy(
                                of: source, file.status, on: disk, to: target, on: configuration.sources)
                            try CopyMonitor(cancellation: cancellation, progress: progress)
                                .run(copy, sizeInBytes: file.status.sizeInBytes)
                            try requireUnchanged(file, key)
                        } catch ContentCopy.Failure.target(let error) {
                            throw error
                        } catch {
                            if case ContentCopy.Failure.source(let cause) = error {
                                storeError = FileStoreError(cause, .export, key: key)
                            } else {
                                storeError = error
                            }
                            throw FileSystemError(.read, .canceled)
                        }
                    }
                }
            } catch {
                throw storeError ?? error
            }
        }
    }

    /// Throws `.conflict` if another program wrote to the file; stores replace and delete files only, which changes
    /// neither size nor modification time.
    private func requireUnchanged(_ file: borrowing OpenFile, _ key: String) throws(FileStoreError) {
        let now: FileStatus
        do {
            now = try file.currentStatus()
        } catch {
            throw FileStoreError(error, .export, key: key)
        }
        guard now.sizeInBytes == file.status.sizeInBytes, now.modified == file.status.modified else {
            throw FileStoreError(.conflict, .export, key: key)
        }
    }
}

/// The path of a file outside the store, to which a file of the store is exported.
struct ExportDestination {
    let fileSystem: any POSIXFileSystem
    private let path: POSIXPath
    private let key: String

    init(_ url: URL, on fileSystem: any POSIXFileSystem, key: String) throws(FileStoreError) {
        do {
            path = try POSIXPath(url)
        } catch {
            throw FileStoreError(.invalidDestination(.notFileURL), .export, key: key, underlying: error)
        }
        self.fileSystem = fileSystem
        self.key = key
    }

    /// Creates or replaces the file by what `content` writes to a descriptor; its old content stays if that fails.
    ///
    /// A symbolic link is replaced itself, never followed.
    func replace(
        overwrite: Bool, durability: Durability, content: (Descriptor) throws(FileSystemError) -> Void
    ) throws(FileStoreError) {
        let (parent, name) = path.splitLast()
        do throws(FileSystemError) {
            // Only `/` (or an empty path) has no last component.
            guard !name.isEmpty else { throw FileSystemError(.open, .isDirectory) }
            let directory = try fileSystem.openDirectory(parent.isEmpty ? "." : parent)
            defer { fileSystem.discard(directory) }
            try requireReplaceable(name, at: directory, overwrite)
            try fileSystem.replaceFile(
                name, at: directory, overwrite ? .replacing : .exclusive, permissions: .privateFile,
                durability: durability, content: content)
        } catch {
            // The failed call may have had a part of the path only, or that of the temporary file.
            var failure = error
            failure.path = path
            failure.destination = nil
            throw FileStoreError(Self.code(of: error), .export, key: key, underlying: failure)
        }
    }

    /// Before anything is copied; the rename checks it again.
    private func requireReplaceable(
        _ name: POSIXPath, at directory: Descriptor, _ overwrite: Bool
    ) throws(FileSystemError) {
        let status: FileStatus
        do {
            status = try fileSystem.status(name, at: directory, followsSymbolicLinks: false)
        } catch  where error.errno == .noSuchFileOrDirectory {
            return
        }
        guard overwrite else { throw FileSystemError(.open, .fileExists) }
        guard status.type != .directory else { throw FileSystemError(.open, .isDirectory) }
        guard status.type == .regular || status.type == .symbolicLink else {
            throw FileSystemError(.open, .noSuchAddressOrDevice)
        }
    }

    private static func code(of error: FileSystemError) -> FileStoreError.Code {
        guard !error.isEffectVisible else { return .durabilityUnknown }
        return switch error.errno {
        case .noSuchFileOrDirectory, .notDirectory, .tooManySymbolicLinkLevels: .invalidDestination(.noDirectory)
        case .isDirectory: .invalidDestination(.isDirectory)
        case .noSuchAddressOrDevice: .invalidDestination(.notRegular)
        case .fileNameTooLong, .invalidArgument, .illegalByteSequence: .invalidDestination(.notFileURL)
        default: FileStoreError.Code(error, .export)
        }
    }
}

/// The cancellation and the progress of a copy.
struct CopyMonitor: Sendable {
    let cancellation: Cancellation
    /// Its total is set to the size of the source, in bytes; cancelling it cancels the copy.
    let progress: Progress?

    /// Makes all pieces of a copy.
    ///
    /// - Throws: `CancellationError`, or ``ContentCopy/Failure``.
    func run(_ copy: ContentCopy, sizeInBytes: Int64) throws {
        repeat {
            // A total of zero is no progress to `Progress`, and ends the process if it has a parent.
            progress?.totalUnitCount = max(sizeInBytes, copy.offset, 1)
            progress?.completedUnitCount = copy.offset
            if progress?.isCancelled == true { throw CancellationError() }
            try cancellation.check()
        } while try copy.next()
        if let progress { progress.completedUnitCount = progress.totalUnitCount }
    }
}
